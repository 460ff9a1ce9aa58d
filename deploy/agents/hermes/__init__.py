"""Hermes plugin of swarm-fabric: asks `swarmctl hook hermes` before a tool writes, and tells it what the session does.

`swarmctl install --host hermes` puts it here, with swarm.json beside it, which names swarmctl. Without a swarmctl to ask it stays out
of the way, unless swarm.json says fail_closed. Hermes runs hooks inline and without a timeout, so every call here has one.
"""

import json
import logging
import os
import subprocess
import threading
import time

logger = logging.getLogger("swarm")

_HERE = os.path.dirname(os.path.abspath(__file__))
# Above the time that swarmctl gives a hook itself.
_PATIENCE_S = 10
_OUTPUT_MAX = 1024 * 1024


class _Unanswered(Exception):
    pass


def _settings():
    try:
        with open(os.path.join(_HERE, "swarm.json"), encoding="utf-8") as file:
            value = json.load(file)
        return value if isinstance(value, dict) else {}
    except (OSError, ValueError):
        return {}


def _call_home():
    """swarmctl doctor reads it: a plugin that is not enabled says nothing."""
    try:
        stamp = os.path.join(_HERE, "loaded.json")
        with open(os.open(stamp + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump({"for": "swarm-fabric", "at_ms": int(time.time() * 1000)}, file)
        os.replace(stamp + ".new", stamp)
    except OSError:
        pass


class Swarm:
    """The sessions of this process. Hooks may come from several threads."""

    def __init__(self, settings=None):
        chosen = _settings() if settings is None else settings
        self._program = str(chosen.get("program") or "swarmctl")
        self._fail_closed = bool(chosen.get("fail_closed"))
        self._enforce = bool(chosen.get("enforce"))
        self._lock = threading.Lock()
        self._started = set()
        self._working = set()
        self._news = {}
        self._complained = False

    # -- asking swarmctl ---------------------------------------------------------------

    def _ask(self, event, payload, flags=()):
        argv = [self._program, "hook", "hermes", event, *flags]
        try:
            done = subprocess.run(argv, input=json.dumps(payload, default=str).encode("utf-8", "replace"), capture_output=True,
                                  timeout=_PATIENCE_S, check=False)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            raise _Unanswered(str(error)) from error
        if done.returncode == 2:
            reason = done.stderr.decode("utf-8", "replace").strip()
            return {"action": "block", "message": reason or "blocked by swarmctl"}
        if done.returncode != 0:
            raise _Unanswered("%s ended with %d: %s" % (self._program, done.returncode, done.stderr.decode("utf-8", "replace").strip()[:400]))
        text = done.stdout[:_OUTPUT_MAX].decode("utf-8", "replace").strip()
        if not text:
            return {}
        try:
            reply = json.loads(text)
        except ValueError:
            return {}
        return reply if isinstance(reply, dict) else {}

    def _complain(self, error):
        if not self._complained:
            logger.warning("swarm: %s; going on without it", error)
        self._complained = True

    def _payload(self, session_id, **more):
        try:
            cwd = os.environ.get("TERMINAL_CWD") or os.getcwd()
        except OSError:
            cwd = ""
        return {"session_id": session_id, "cwd": cwd, **more}

    def _tell(self, event, session_id, **more):
        """What the model should know, or nothing. Never raises."""
        try:
            reply = self._ask(event, self._payload(session_id, **more))
        except _Unanswered as error:
            self._complain(error)
            return ""
        context = reply.get("context")
        return context if isinstance(context, str) else ""

    def _remember(self, session_id, text):
        if text:
            with self._lock:
                self._news[session_id] = (self._news[session_id] + "\n\n" if session_id in self._news else "") + text

    def _session(self, session_id):
        """Older Hermes names no session before a tool: then it is the only one, if there is only one."""
        if session_id:
            return str(session_id)
        with self._lock:
            return next(iter(self._started)) if len(self._started) == 1 else ""

    def _start(self, session_id, source):
        with self._lock:
            if not session_id or session_id in self._started:
                return
            self._started.add(session_id)
        self._remember(session_id, self._tell("session-start", session_id, source=source))

    # -- hooks; Hermes adds arguments from time to time --------------------------------

    def on_session_start(self, session_id="", **_):
        self._start(str(session_id or ""), "startup")

    def pre_llm_call(self, session_id="", **_):
        session_id = self._session(session_id)
        if not session_id:
            return None
        # Hermes announces only new sessions, so one that goes on from earlier is met here.
        self._start(session_id, "resume")
        with self._lock:
            begins = session_id not in self._working
            self._working.add(session_id)
        if begins:
            self._remember(session_id, self._tell("prompt-submit", session_id))
        with self._lock:
            news = self._news.pop(session_id, "")
        return {"context": news} if news else None

    def pre_tool_call(self, tool_name="", args=None, session_id="", tool_call_id="", **_):
        session_id = self._session(session_id)
        if not session_id:
            return None
        self._start(session_id, "resume")
        flags = (["--fail-closed"] if self._fail_closed else []) + (["--enforce"] if self._enforce else [])
        payload = self._payload(session_id, tool_name=tool_name, tool_input=args if isinstance(args, dict) else {},
                                tool_use_id=str(tool_call_id or ""))
        try:
            reply = self._ask("pre-tool-use", payload, flags)
        except _Unanswered as error:
            if self._fail_closed:
                return {"action": "block", "message": "swarm: the lock check failed, and this set-up blocks then: %s" % error}
            self._complain(error)
            return None
        if reply.get("action") == "block":
            return {"action": "block", "message": str(reply.get("message") or "blocked by swarmctl")}
        return None

    def post_tool_call(self, tool_name="", args=None, session_id="", tool_call_id="", **_):
        session_id = self._session(session_id)
        if session_id:
            self._remember(session_id, self._tell("post-tool-use", session_id, tool_name=tool_name,
                                                  tool_input=args if isinstance(args, dict) else {}, tool_use_id=str(tool_call_id or "")))

    def on_session_end(self, session_id="", **_):
        """The end of a turn, not of the session."""
        session_id = self._session(session_id)
        if session_id:
            with self._lock:
                self._working.discard(session_id)
            self._tell("stop", session_id)

    def on_session_finalize(self, session_id="", **_):
        session_id = self._session(session_id)
        with self._lock:
            known = session_id in self._started
            self._started.discard(session_id)
            self._working.discard(session_id)
            self._news.pop(session_id, None)
        if known:
            self._tell("session-end", session_id)

    def on_session_reset(self, session_id="", old_session_id="", new_session_id="", old="", new="", **_):
        gone = old_session_id or old
        fresh = new_session_id or new or session_id
        if gone:
            self.on_session_finalize(session_id=gone)
        self._start(str(fresh or ""), "startup")


def register(ctx):
    swarm = Swarm()
    for name in ("on_session_start", "pre_llm_call", "pre_tool_call", "post_tool_call", "on_session_end", "on_session_finalize",
                 "on_session_reset"):
        try:
            ctx.register_hook(name, getattr(swarm, name))
        except Exception as error:  # an older Hermes without that hook
            logger.debug("swarm: no hook %s: %s", name, error)
    _call_home()
