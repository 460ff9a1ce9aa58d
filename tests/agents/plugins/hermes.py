"""Drives the Hermes plugin as Hermes does: register(ctx), then hooks by name with keyword arguments.

python3 hermes.py <plugin directory> <script>; the script is a JSON list of [hook, {arguments}]. Prints one JSON line for each step: what
the hook returned. An exception of a hook is printed as {"exception": ...}: Hermes would swallow it and go on.
"""

import importlib.util
import json
import os
import sys


class Context:
    def __init__(self):
        self.hooks = {}

    def register_hook(self, name, callback):
        self.hooks[name] = callback


def main():
    directory, script = sys.argv[1:3]
    sys.dont_write_bytecode = True
    spec = importlib.util.spec_from_file_location("hermes_plugins.swarm", os.path.join(directory, "__init__.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    context = Context()
    module.register(context)
    for name, arguments in json.loads(script):
        # Hermes adds fields from time to time.
        arguments = {"telemetry_schema_version": 3, "turn_id": "t", **arguments}
        try:
            said = context.hooks[name](**arguments)
        except Exception as error:  # pylint: disable=broad-except
            said = {"exception": repr(error)}
        print(json.dumps(said), flush=True)


main()
