"""Drives the Hermes plugin as Hermes does: register(ctx), then hooks by name with keyword arguments, and commands with the text after them.

python3 hermes.py <plugin directory> <script>; the script is a JSON list of [hook, {arguments}] | ["/command", text] | ["clock"] |
["until", file, text in it] | ["run", [program, argument...]]. Prints one JSON line for each step: what the hook or the command returned, the seconds
of a clock, what the program printed, or null. An exception is printed as {"exception": ...}: Hermes would swallow that of a hook and go on.
"""

import importlib.util
import json
import os
import subprocess
import sys
import time


class Context:
    def __init__(self):
        self.hooks = {}
        self.commands = {}

    def register_hook(self, name, callback):
        self.hooks[name] = callback

    def register_command(self, name, callback, description=""):
        if name in self.commands or not description:
            raise ValueError(name)
        self.commands[name] = callback


def until(file, text):
    deadline = time.monotonic() + 20
    while not os.path.exists(file) or text not in open(file, encoding="utf-8").read():
        if time.monotonic() > deadline:
            raise TimeoutError("%s never has %s" % (file, text))
        time.sleep(0.02)


def step(context, name, *arguments):
    if name == "clock":
        return time.monotonic()
    if name == "run":
        return subprocess.run(arguments[0], stdout=subprocess.PIPE, check=True).stdout.decode()
    if name == "until":
        return until(*arguments)
    if name.startswith("/"):
        return context.commands[name[1:]](*arguments)
    # Hermes adds fields from time to time.
    return context.hooks[name](**{"telemetry_schema_version": 3, "turn_id": "t", **arguments[0]})


def main():
    directory, script = sys.argv[1:3]
    sys.dont_write_bytecode = True
    spec = importlib.util.spec_from_file_location("hermes_plugins.swarm", os.path.join(directory, "__init__.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    context = Context()
    module.register(context)
    for entry in json.loads(script):
        try:
            said = step(context, *entry)
        except Exception as error:  # pylint: disable=broad-except
            said = {"exception": repr(error)}
        print(json.dumps(said), flush=True)


main()
