"""Hermes plugin of swarm-fabric: asks `swarmctl hook hermes` before a tool writes, tells it what the session does, brings unread messages into
the conversation, and answers /swarm.

`swarmctl install --host hermes` puts it here, with swarm.json beside it, which names swarmctl. Without a swarmctl to ask it stays out
of the way, unless swarm.json says fail_closed. Hermes runs hooks inline and without a timeout, so none of them takes longer than
$SWARM_HERMES_HOOK_SECONDS (2).
"""

import json
import logging
import os
import subprocess
import threading
import time
import unicodedata

logger = logging.getLogger("swarm")

_HERE = os.path.dirname(os.path.abspath(__file__))
_PATIENCE_S = 2.0
_PATIENCE_S_MAX = 60.0
# swarmctl gets this part of the time for its calls, so that it can still report what it could not do.
_OF_IT_FOR_CALLS = 0.75
# The start of a session may start the node. Nobody waits here for its end.
_START_S = 20.0
_OUTPUT_MAX = 16 * 1024 * 1024
# Hermes' tools that write or run commands. For the other tools the plugin asks nothing and starts no process.
_WRITERS = frozenset(("write_file", "patch", "edit_file", "apply_patch", "terminal", "execute_code"))
# The other tools only show that the session is at work; the plugin reports that at most once in this time.
_SIGN_OF_LIFE_S = 60.0
_SESSIONS_MAX = 1024
_DEPTH_MAX = 16  # of subagents
_NEWS_MAX = 16 * 1024

# /swarm, in a chat: a message of Telegram has 4096 characters.
_REPLY_MAX = 3500
_ROWS_MAX = 16
_TEXT_MAX = 160
_HELP = "who is there, what is to be done, what is locked: status, instances, tasks, locks, kv, messages"
_ENDED = frozenset(("done", "failed", "cancelled"))
_NO_NODE = 3  # exit status of swarmctl


class _Unanswered(Exception):
    pass


def _settings():
    try:
        with open(os.path.join(_HERE, "swarm.json"), encoding="utf-8") as file:
            value = json.load(file)
        return value if isinstance(value, dict) else {}
    except (OSError, ValueError):
        return {}


def _patience():
    try:
        seconds = float(os.environ.get("SWARM_HERMES_HOOK_SECONDS", ""))
    except ValueError:
        return _PATIENCE_S
    return min(seconds, _PATIENCE_S_MAX) if seconds > 0 else _PATIENCE_S


def _call_home():
    """swarmctl doctor reads it: a plugin that is not enabled says nothing."""
    try:
        stamp = os.path.join(_HERE, "loaded.json")
        with open(os.open(stamp + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump({"for": "swarm-fabric", "at_ms": int(time.time() * 1000)}, file)
        os.replace(stamp + ".new", stamp)
    except OSError:
        pass


def _directory():
    try:
        return os.environ.get("TERMINAL_CWD") or os.getcwd()
    except OSError:
        return ""


# -- /swarm shows the texts of others as one line of visible characters, formatted as code, so that a chat makes no links or mentions of them --


def _quoted(text, longest=_TEXT_MAX):
    kept = "".join(" " if c.isspace() else c for c in str(text or "")[: 8 * longest] if c.isspace() or unicodedata.category(c)[0] != "C")
    line = " ".join(kept.split()).replace("`", "'")
    return "`" + (line if len(line) <= longest else line[: longest - 1] + "…") + "`" if line else "-"


def _short(identifier):
    return _quoted(str(identifier or "")[:8])


def _instance_line(row):
    return "%s %s" % (_short(row.get("id")), _quoted(row.get("label")))


def _task_line(row):
    who = " by " + _short(row["assignee"]) if row.get("assignee") else ""
    return "%s %s %s%s" % (_short(row.get("id")), _quoted(row.get("status")), _quoted(row.get("title")), who)


def _lock_line(row):
    note = " " + _quoted(row["content"]) if row.get("content") else ""
    holder = _quoted(row["owner_label"]) if row.get("owner_label") else _short(row.get("instance_id"))
    return "%s held by %s%s" % (_quoted(row.get("file")), holder, note)


def _key_line(row):
    return _quoted(row.get("key"))


def _message_line(row):
    return "%s to %s: %s" % (_short(row.get("sender")), _short(row.get("recipient")), _quoted(row.get("content")))


# What to ask swarmctl, and a line for each row of the answer.
_VIEWS = {
    "instances": (["instances"], _instance_line),
    "tasks": (["tasks"], _task_line),
    "locks": (["locks"], _lock_line),
    "kv": (["kv", "list"], _key_line),
    "messages": (["messages", "--limit", str(_ROWS_MAX)], _message_line),
}


def _section(name, rows):
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    if name == "tasks":
        rows = [row for row in rows if row.get("status") not in _ENDED]
    lines = ["%s (%d)" % ("unfinished tasks" if name == "tasks" else name, len(rows))]
    lines += ["- " + _VIEWS[name][1](row) for row in rows[:_ROWS_MAX]]
    if len(rows) > _ROWS_MAX:
        lines.append("- and %d more" % (len(rows) - _ROWS_MAX))
    return lines


def _status(value):
    if not isinstance(value, dict):
        return []
    lines = ["swarm " + _quoted(value.get("scope"))]
    for name in ("instances", "tasks", "locks"):
        lines += _section(name, value.get(name))
    # Keys and messages only grow, and each has a view of its own; this view shows how many there are.
    return lines + ["%s (%d)" % (name, len(value.get(name) or [])) for name in ("kv", "messages")]


def _bounded(lines):
    text = ""
    for line in lines:
        if len(text) + len(line) > _REPLY_MAX:
            return text + "(more is left out)"
        text += line + "\n"
    return text.rstrip("\n")


class _Session:
    """One session of Hermes."""

    def __init__(self):
        self.platform = ""
        self.starting = None  # the thread that announces it
        self.tried = False  # that has ended,
        self.announced = False  # with an answer
        self.gone = False
        self.news = ""  # for its next prompt
        self.mail = ""  # as it was shown last
        self.told_at = 0.0  # of what it does


class Swarm:
    """The sessions of this process. Hooks may come from several threads."""

    def __init__(self, settings=None):
        chosen = _settings() if settings is None else settings
        self._program = str(chosen.get("program") or "swarmctl")
        self._fail_closed = bool(chosen.get("fail_closed"))
        self._check_flags = (["--fail-closed"] if self._fail_closed else []) + (["--enforce"] if chosen.get("enforce") else [])
        self._patience = _patience()
        self._lock = threading.Lock()
        self._sessions = {}
        self._parents = {}  # of a subagent's session: its work is that of the session above
        self._complained = False

    # -- asking swarmctl ---------------------------------------------------------------

    def _run(self, arguments, seconds, data=b"", directory=None):
        if seconds <= 0:
            raise _Unanswered("there was no time left to ask %s" % self._program)
        argv = [self._program, *arguments, "--timeout", "%.3f" % (seconds * _OF_IT_FOR_CALLS)]
        try:
            return subprocess.run(argv, input=data, capture_output=True, timeout=seconds, check=False, cwd=directory)
        except subprocess.TimeoutExpired as error:
            raise _Unanswered("no answer from %s in time" % self._program) from error
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            raise _Unanswered(str(error)) from error

    def _ask(self, event, session_id, seconds, flags=(), **more):
        """The answer, a dictionary; empty for silence."""
        try:
            # Not escaped: swarmctl repairs a name that is not valid text, while an escape of such a name would make the whole event invalid.
            payload = json.dumps({"session_id": session_id, "cwd": _directory(), **more}, default=str, ensure_ascii=False)
            data = payload.encode("utf-8", "surrogatepass")
        except Exception as error:
            raise _Unanswered("the event cannot be told: %s" % error) from error
        done = self._run(["hook", "hermes", event, *flags], seconds, data)
        said = done.stderr.decode("utf-8", "replace").strip()
        if done.returncode == 2:
            return {"action": "block", "message": said or "blocked by swarmctl"}
        if done.returncode != 0:
            raise _Unanswered("%s ended with %d: %s" % (self._program, done.returncode, said[:400]))
        text = done.stdout[:_OUTPUT_MAX].decode("utf-8", "replace").strip()
        # With --fail-closed swarmctl says explicitly that a tool may run, so silence means that it failed.
        if not text and "--fail-closed" not in flags:
            return {}
        try:
            reply = json.loads(text)
        except ValueError as error:
            raise _Unanswered("%s answered with something else than JSON" % self._program) from error
        if not isinstance(reply, dict):
            raise _Unanswered("%s answered with something else than an object" % self._program)
        return reply

    def _complain(self, error):
        if not self._complained:
            logger.warning("swarm: %s; going on without it", error)
        self._complained = True

    def _tell(self, event, session_id, seconds, **more):
        """What the model should know, or nothing; None when nobody answered. Never raises."""
        try:
            context = self._ask(event, session_id, seconds, **more).get("context")
        except _Unanswered as error:
            self._complain(error)
            return None
        return context if isinstance(context, str) else ""

    # -- sessions ----------------------------------------------------------------------

    def _named(self, session_id):
        """Older versions of Hermes name no session before a tool: then this returns the only session, if there is only one."""
        session_id = str(session_id or "")
        with self._lock:
            for _ in range(_DEPTH_MAX):
                session_id = self._parents.get(session_id, session_id)
            if session_id:
                return session_id
            started = [name for name, session in self._sessions.items() if session.starting]
            return started[0] if len(started) == 1 else ""

    def _is_subagent(self, session_id):
        with self._lock:
            return str(session_id or "") in self._parents

    def _known(self, session_id, platform=""):
        with self._lock:
            session = self._sessions.setdefault(session_id, _Session())
            if platform:
                session.platform = str(platform)
            if len(self._sessions) > _SESSIONS_MAX:  # Hermes does not always say that one is over
                self._sessions.pop(next(iter(self._sessions)))
            return session

    def _remember(self, session, text):
        if text:
            with self._lock:
                session.news = ((session.news + "\n\n" if session.news else "") + text)[:_NEWS_MAX]

    def _start(self, session_id, session, source, deadline, again=False):
        """Announces the session unless it is announced. True when that is done; does not wait for a node that starts slowly."""

        def announce():
            said = self._tell("session-start", session_id, _START_S, source=source, platform=session.platform)
            self._remember(session, said)
            with self._lock:
                session.tried = True
                session.announced = said is not None
                gone = session.gone
            if gone:
                self._tell("session-end", session_id, self._patience)

        with self._lock:
            if not session.starting or (again and session.tried and not session.announced):
                session.tried = False
                session.starting = threading.Thread(target=announce, name="swarm-start", daemon=True)
                session.starting.start()
        session.starting.join(max(0.0, deadline - time.monotonic()))
        return session.tried

    # -- hooks; Hermes adds arguments from time to time --------------------------------

    def on_session_start(self, session_id="", platform="", **_):
        if session_id and not self._is_subagent(session_id):
            session = self._known(str(session_id), platform)
            self._start(str(session_id), session, "startup", time.monotonic() + self._patience)

    def pre_llm_call(self, session_id="", platform="", **_):
        if self._is_subagent(session_id):
            return None
        session_id = self._named(session_id)
        if not session_id:
            return None
        deadline = time.monotonic() + self._patience
        session = self._known(session_id, platform)
        # Hermes announces only new sessions, so the plugin first sees a resumed session here.
        if self._start(session_id, session, "resume", deadline, again=True):
            session.told_at = time.monotonic()
            # swarmctl repeats the unread messages as long as they are unread; the model needs them once.
            mail = self._tell("prompt-submit", session_id, deadline - time.monotonic())
            if mail is not None and mail != session.mail:
                session.mail = mail
                self._remember(session, mail)
        with self._lock:
            news, session.news = session.news, ""
        return {"context": news} if news else None

    def pre_tool_call(self, tool_name="", args=None, session_id="", tool_call_id="", platform="", **_):
        if tool_name not in _WRITERS:
            return None
        try:
            return self._check(tool_name, args, self._named(session_id), tool_call_id, platform)
        except Exception as error:  # Hermes would swallow it and run the tool
            if self._fail_closed:
                return {"action": "block", "message": "swarm: the lock check failed, and this set-up blocks then: %s" % error}
            self._complain(error)
            return None

    def _check(self, tool_name, args, session_id, tool_call_id, platform):
        if not session_id:
            raise _Unanswered("Hermes has not said which session it is")
        deadline = time.monotonic() + self._patience
        session = self._known(session_id, platform)
        if not self._start(session_id, session, "resume", deadline):
            raise _Unanswered("the session is still being registered")
        session.told_at = time.monotonic()
        reply = self._ask("pre-tool-use", session_id, deadline - time.monotonic(), self._check_flags, **_tool(tool_name, args, tool_call_id))
        if reply.get("action") == "block":
            return {"action": "block", "message": str(reply.get("message") or "blocked by swarmctl")}
        return None

    def post_tool_call(self, tool_name="", args=None, session_id="", tool_call_id="", **_):
        session_id = self._named(session_id)
        if not session_id:
            return
        session = self._known(session_id)
        now = time.monotonic()
        if tool_name in _WRITERS or now - session.told_at > _SIGN_OF_LIFE_S:
            session.told_at = now
            self._remember(session, self._tell("post-tool-use", session_id, self._patience, **_tool(tool_name, args, tool_call_id)))

    def on_session_end(self, session_id="", **_):
        """The end of a turn, not of the session."""
        subagent = self._is_subagent(session_id)
        session_id = self._named(session_id)
        if session_id and not subagent:
            self._tell("stop", session_id, self._patience)

    def on_session_finalize(self, session_id="", **_):
        if self._is_subagent(session_id):
            return
        session_id = self._named(session_id)
        with self._lock:
            session = self._sessions.pop(session_id, None)
            if session:
                session.gone = True
            ends = session is not None and session.tried
        # If the session is still being announced, the announcement ends it afterwards.
        if ends:
            self._tell("session-end", session_id, self._patience)

    def on_session_reset(self, session_id="", old_session_id="", new_session_id="", old="", new="", platform="", **_):
        gone = old_session_id or old
        fresh = new_session_id or new or session_id
        if gone:
            self.on_session_finalize(session_id=gone)
        self.on_session_start(session_id=fresh, platform=platform)

    def subagent_start(self, parent_session_id="", child_session_id="", **_):
        if parent_session_id and child_session_id and parent_session_id != child_session_id:
            with self._lock:
                self._parents[str(child_session_id)] = str(parent_session_id)
                if len(self._parents) > _SESSIONS_MAX:
                    self._parents.pop(next(iter(self._parents)))

    def subagent_stop(self, child_session_id="", **_):
        with self._lock:
            self._parents.pop(str(child_session_id or ""), None)

    # -- /swarm ------------------------------------------------------------------------

    def command(self, raw_args="", **_):
        words = str(raw_args or "").split() or ["status"]
        what = words[0].lower()
        if len(words) > 1 or (what != "status" and what not in _VIEWS):
            return "usage: /swarm [status|%s]" % "|".join(_VIEWS)
        scope = os.environ.get("SWARM_HERMES_SCOPE", "").strip()
        directory = _directory()
        arguments = ["inspect"] if what == "status" else _VIEWS[what][0]
        try:
            done = self._run([*arguments, "--json", "--no-autostart", *(["--scope", scope] if scope else [])], self._patience,
                             directory=directory if os.path.isdir(directory) else None)
        except _Unanswered as error:
            return "swarm: " + _quoted(error)
        if done.returncode == _NO_NODE:
            return "swarm: no node runs here"
        if done.returncode != 0:
            return "swarm: " + _quoted(done.stderr.decode("utf-8", "replace"))
        try:
            value = json.loads(done.stdout[:_OUTPUT_MAX])
        except ValueError:
            return "swarm: the answer cannot be shown"
        return _bounded(_status(value) if what == "status" else _section(what, value))


def _tool(name, args, call_id):
    return {"tool_name": str(name or ""), "tool_input": args if isinstance(args, dict) else {}, "tool_use_id": str(call_id or "")}


def register(ctx):
    swarm = Swarm()
    for name in ("on_session_start", "pre_llm_call", "pre_tool_call", "post_tool_call", "on_session_end", "on_session_finalize",
                 "on_session_reset", "subagent_start", "subagent_stop"):
        try:
            ctx.register_hook(name, getattr(swarm, name))
        except Exception as error:  # an older Hermes without that hook
            logger.debug("swarm: no hook %s: %s", name, error)
    try:
        ctx.register_command("swarm", swarm.command, description=_HELP)
    except Exception as error:  # the name is taken, or an older Hermes has no commands
        logger.warning("swarm: no command /swarm: %s", error)
    _call_home()
