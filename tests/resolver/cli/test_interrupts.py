"""Signals at unexpected moments of a run.

At each moment, a separate process sends itself the signal. Standard error is closed only after the process
and all processes it started have ended.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from resolver.cli.bulk import Interrupts
from tests.begun import CLUSTERS, Program
from tests.fresh import environment
from tests.hang import HANG
from tests.resolver.cli import interrupted

CHECKOUT = Path(__file__).parents[3]

PRELUDE = """
import gc, os, signal, sys, threading
from resolver import cli
from resolver.cli import bulk as interrupts
from resolver.cli.bulk import Interrupts

def say(how):
    print(how, file=sys.stderr, flush=True)

def wait():
    threading.Event().wait()

def send(number=signal.SIGINT):
    signal.raise_signal(number)

def main(words):
    with Interrupts(say) as heard:
        moment()
        return 0
    return heard.status

cli.main = main
interrupts.PATIENCE = 1e6
"""


def run_to_end(moment: str, ending: str = "cli.run()", stderr: int = subprocess.PIPE) -> tuple[int, str]:
    """Run this code in a process and return its exit status and standard error."""
    program = f"{PRELUDE}\ndef moment():\n{textwrap.indent(textwrap.dedent(moment), '    ')}\n{ending}\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={**environment(), "PYTHONPATH": str(CHECKOUT)},
        stdin=subprocess.DEVNULL,
        stderr=stderr,
        timeout=HANG,
        text=True,
    )
    return done.returncode, done.stderr or ""


MOMENTS = {
    "while it works": "send(); wait()",
    "in a finalizer": """
        class Gone:
            def __del__(self):
                send()
        Gone()
        wait()
    """,
    "in a callback of the collector": """
        sent = []
        def callback(phase, facts):
            if not sent:
                sent.append(phase)
                send()
        gc.callbacks.append(callback)
        gc.collect()
        wait()
    """,
    "and what is closed breaks": """
        try:
            send()
        finally:
            raise RuntimeError("cannot release un-acquired lock")
    """,
    "and what is closed waits": """
        interrupts.PATIENCE = 0
        try:
            send()
        finally:
            wait()
    """,
    "and another one while it closes": """
        try:
            send()
        finally:
            send()
            wait()
    """,
    "and a thread waits at the end": """
        threading.Thread(target=wait).start()
        send()
    """,
    "and what Python does at the end waits": """
        import atexit
        atexit.register(wait)
        send()
    """,
    "and a library keeps it to itself": """
        interrupts.PATIENCE = 0
        try:
            send()
        except BaseException:
            wait()
    """,
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_signal_at_any_moment_ends_process(moment: str) -> None:
    assert run_to_end(MOMENTS[moment]) == (130, "interrupted\n")


def test_sigterm_exits_with_status_143() -> None:
    assert run_to_end("send(signal.SIGTERM)") == (143, "terminated\n")


def test_signal_with_full_stderr_pipe_ends_process() -> None:
    """The pipe of standard error is full."""
    moment = """
        interrupts._LAST = 0
        interrupts.PATIENCE = 0
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        try:
            while os.write(writing, bytes(4096)):
                pass
        except BlockingIOError:
            os.set_blocking(writing, True)
        os.dup2(writing, 2)
        send()
    """
    assert run_to_end(moment) == (130, "")


def test_sigint_ignored_by_parent_still_ends_process() -> None:
    """A script starts its background jobs with SIGINT ignored."""
    ignored = "signal.signal(signal.SIGINT, signal.SIG_IGN); cli.run()"
    assert run_to_end("send(); wait()", ignored) == (130, "interrupted\n")


def test_other_unraisable_exceptions_are_reported() -> None:
    status, text = run_to_end("""
        class Gone:
            def __del__(self):
                raise ValueError("mine")
        Gone()
    """)
    assert (status, "Exception ignored in" in text, "mine" in text) == (0, True, True)


def test_interrupts_restore_signal_handlers_and_hook() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)], sys.unraisablehook
    messages: list[str] = []
    with Interrupts(messages.append):
        assert signal.getsignal(signal.SIGTERM) is not before[0][1]
    with pytest.raises(ValueError, match="mine"), Interrupts(messages.append):
        raise ValueError("mine")
    with Interrupts(messages.append) as interrupts:
        signal.raise_signal(signal.SIGTERM)
    assert (interrupts.status, messages) == (143, ["terminated"])
    after = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)], sys.unraisablehook
    assert after == before


# ---- the command, with a local cluster

#: Message of Python in a worker whose parent ended before it sent the worker its task. At most one worker was
#: starting.
UNBORN = re.compile(
    r'Traceback [^\n]*\n  File "<string>", line 1, in <module>\n(?:[ ].*\n)+EOFError: Ran out of input\n\Z'
)


@pytest.mark.parametrize("moment", interrupted.MOMENTS)
def test_interrupted_bulk_ends_all_its_processes(moment: str, tmp_path: Path) -> None:
    variables = {**environment(), "PYTHONPATH": str(CHECKOUT)}
    program = "tests.resolver.cli.interrupted:run"
    with Program([moment], program, loaded=CLUSTERS, environment=variables, folder=tmp_path) as process:
        status, out, text = process.ended()
    line = "resolve: interrupted: finished files are kept (run the same command again to continue)\n"
    assert (status, out, UNBORN.sub("", text)) == (130, "", line)


def test_interrupt_in_callback_during_import_ends_run() -> None:
    """The import system has such callbacks. Python reports an exception there, and continues."""
    program = """
import signal, sys, weakref
from resolver.cli import run

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores the signal

class Module: pass

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "trio":
            module = Module()
            self.reference = weakref.ref(module, lambda dead: signal.raise_signal(signal.SIGINT))

sys.meta_path.insert(0, Finder())
sys.argv[1:] = ["cat", "file:///etc/passwd"]
run()
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment(), "PYTHONPATH": str(CHECKOUT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=HANG,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")
