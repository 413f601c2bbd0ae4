"""What each room may import and use: a list of what it may, so that what nobody thought of it may not.

A name of the list allows what is below it, too: `os` is all of `os`, `os.path.join` nothing else of it. What
reaches out of a module without an import has to be listed as well: `builtins.open`.
"""

from __future__ import annotations

import ast
from functools import cache

from tests.architecture.source import Module, is_within, words

#: Rooms, and what they have besides what the rooms around them have. `protocols` knows no clock, no chance,
#: no file and no socket, nor does `resolver` but where it says so here.
ALLOWED: tuple[tuple[str, str], ...] = (
    (
        "protocols resolver",
        "__future__ collections contextlib datetime enum functools ipaddress itertools re types typing",
    ),
    # a start waits for every class that is made of its fields; adapters are for programs that run
    ("protocols.values", "_collections._tuplegetter dataclasses"),
    ("protocols.constructors", "builtins.exec"),
    ("protocols.originals", "dataclasses inspect"),
    ("resolver.adapters resolver.testing", "dataclasses"),
    ("protocols", "binascii operator protocols"),
    ("protocols.charset", "encodings"),
    ("resolver.retrieval.checksum", "base64.b64decode"),
    ("protocols.file.document protocols.prospero.contents", "mimetypes.guess_type"),
    ("protocols.http.codings protocols.news.deflate", "zlib"),
    ("protocols.http.machine", "h11"),
    ("protocols.http.digest", "hashlib.md5 hashlib.sha256 urllib.parse.quote"),
    ("protocols.http.index.markup", "lxml.etree"),
    ("protocols.http.index.objects", "json"),
    ("protocols.http.index.elements", "xml.parsers.expat"),
    ("protocols.socks", "socksio"),
    (
        "resolver",
        "protocols resolver os.PathLike os.altsep os.fsencode os.fspath os.path.abspath os.path.join os.sep "
        "urllib.parse.quote urllib.parse.unquote_to_bytes",
    ),
    ("resolver.__init__", "builtins.globals"),
    ("resolver.__init__ resolver.registry", "importlib.import_module"),
    ("resolver.registry", "importlib.metadata"),
    (
        "resolver.codings resolver.http2 resolver.registry resolver.prompts resolver.public_suffix",
        "importlib.util.find_spec",
    ),
    ("resolver.codings", "brotli zstandard"),
    ("resolver.prompts", "regex"),
    ("resolver.public_suffix", "publicsuffixlist"),
    ("resolver.tunnels", "importlib.util.find_spec"),
    ("resolver.retrieval.checksum", "binascii"),
    ("resolver.retrieval.response resolver.retrieval.meta resolver.retrieval.archived_file", "json"),
    ("resolver.lists.metalink", "xml.parsers.expat"),
    ("resolver.log", "logging.DEBUG logging.getLogger"),
    ("resolver.url", "os.fsdecode pathlib.Path"),
    ("resolver.iri resolver.policy.names", "idna"),
    ("resolver.screen resolver.terminal", "codecs"),
    ("resolver.tree.loops", "hashlib.sha256"),
    ("resolver.tree.names", "unicodedata"),
    ("resolver.tree.robots", "protego.Protego"),
    ("resolver.tree.selection", "fnmatch.translate"),
    ("resolver.tree.mirror resolver.tree.spool", "sqlite3"),
    ("resolver.cookies", "os.path.dirname os.path.isdir"),
    ("resolver.policy.filenames resolver.policy.names", "unicodedata"),
    ("resolver.environment resolver.news_server resolver.tracebacks", "os.environ"),
    ("resolver.environment", "os.path.isabs"),
    ("resolver.retrieval.claims", "os.path.normpath"),
    ("resolver.environment resolver.cli.config", "os.path.expanduser"),
    ("resolver.news_server", "builtins.open"),
    ("resolver.http2.framing", "h2 hpack"),
    ("resolver.loops.__init__", "sys.modules"),
    (
        "resolver.loops.on_trio",
        "trio.Cancelled trio.ClosedResourceError trio.Event trio.Lock trio.current_time "
        "trio.lowlevel.checkpoint trio.lowlevel.checkpoint_if_cancelled trio.lowlevel.current_trio_token "
        "trio.lowlevel.in_trio_task trio.lowlevel.notify_closing trio.lowlevel.wait_readable "
        "trio.lowlevel.wait_writable trio.move_on_after trio.move_on_at trio.open_nursery trio.sleep "
        "trio.sleep_forever trio.socket.getaddrinfo trio.to_thread.run_sync contextvars.copy_context "
        "trio.CancelScope trio.lowlevel.RunVar trio.lowlevel.spawn_system_task trio.lowlevel.Task "
        "trio.lowlevel.Abort.FAILED trio.lowlevel.current_task trio.lowlevel.reschedule "
        "trio.lowlevel.wait_task_rescheduled",
    ),
    (
        "resolver.loops.on_asyncio",
        "anyio.CancelScope anyio.ClosedResourceError anyio.Event anyio.Lock anyio.create_task_group "
        "anyio.current_time anyio.lowlevel.checkpoint anyio.lowlevel.checkpoint_if_cancelled "
        "anyio.move_on_after anyio.notify_closing anyio.sleep anyio.sleep_forever anyio.wait_readable "
        "anyio.wait_writable asyncio.CancelledError asyncio.Future asyncio.current_task "
        "asyncio.Task asyncio.get_running_loop asyncio.sleep asyncio.wait socket.getaddrinfo "
        "threading.Thread",
    ),
    ("resolver.loops.on_trio resolver.loops.on_asyncio", "math.inf"),
    ("resolver.retrieval.retry", "random.uniform"),
    (
        "resolver.blocking",
        "io.BufferedReader io.RawIOBase io.SEEK_CUR io.SEEK_END io.SEEK_SET io.UnsupportedOperation "
        "weakref.finalize",
    ),
    (
        "resolver.portal",
        "atexit contextvars.ContextVar contextvars.copy_context os.register_at_fork queue.SimpleQueue "
        "sys.is_finalizing threading.RLock threading.Thread threading.get_ident trio.CancelScope "
        "trio.Cancelled trio.Event trio.Nursery trio.RunFinishedError trio.lowlevel.current_trio_token "
        "trio.move_on_after trio.open_nursery trio.run trio.sleep_forever weakref.WeakSet",
    ),
    (
        "resolver.http_transport",
        "httpx.AsyncBaseTransport httpx.AsyncByteStream httpx.ByteStream httpx.ConnectError "
        "httpx.ConnectTimeout httpx.LocalProtocolError httpx.ReadError httpx.ReadTimeout "
        "httpx.BaseTransport httpx.SyncByteStream "
        "httpx.RemoteProtocolError httpx.Request httpx.Response httpx.TimeoutException httpx.TransportError "
        "httpx.UnsupportedProtocol httpx.WriteTimeout weakref",
    ),
    ("resolver.adapters.httpx", "httpx"),
    ("resolver.adapters.pooch", "tqdm.tqdm"),
    ("resolver.adapters.requests", "io.BytesIO os.fsdecode requests"),
    ("resolver.adapters.urllib", "http.client io.BytesIO urllib.error urllib.request urllib.response"),
    ("resolver.adapters.guard", "socket"),
    ("resolver.adapters.guard.streams", "asyncio ssl.SSLContext"),
    ("resolver.adapters.guard.requests", "requests urllib3"),
    ("resolver.adapters.guard.aiohttp", "aiohttp"),
    ("resolver.adapters.fsspec", "fsspec"),
    (
        "resolver.adapters.fsspec.faults resolver.adapters.fsspec.filesystem resolver.adapters.fsspec.tree",
        "errno",
    ),
    ("resolver.adapters.fsspec.filesystem", "hashlib.sha256 threading.local"),
    ("resolver.adapters.fsspec.listings", "atexit os.getpid"),
    ("resolver.adapters.fsspec.options", "urllib.parse.unquote"),
    ("resolver.bulk.forecast", "heapq"),
    ("resolver.bulk.turns", "array.array heapq"),
    ("resolver.bulk.waiting", "json sqlite3"),
    ("resolver.bulk.plan", "hashlib.blake2b"),
    ("resolver.adapters.mcp", "anyio base64.b64encode json mcp mcp_types os.environ"),
    ("resolver.batch", "contextvars.ContextVar contextvars.copy_context heapq"),
    ("resolver.retrieval.aside", "hashlib.blake2b sqlite3"),
    ("resolver.ledger", "contextvars.ContextVar"),
    ("resolver.ledger.book", "hashlib.blake2b json sqlite3 threading.Lock"),
    ("resolver.ledger.database", "sqlite3"),
    ("resolver.ledger.report", "json sqlite3"),
    ("resolver.warc.digests", "base64.b32decode base64.b64decode binascii hashlib.new"),
    ("resolver.warc.catalogue resolver.warc.check", "hashlib.blake2b"),
    ("resolver.warc.inspection", "h11"),
    ("resolver.warc.listing", "json"),
    ("resolver.warc.stretch", "zlib"),
    ("resolver.warc.dialogue resolver.warc.answers resolver.warc.told", "json"),
    ("resolver.warc.exchange", "hashlib.sha1 hashlib.sha256"),
    ("resolver.warc.group", "hashlib.sha1 hashlib.sha256 mimetypes.MimeTypes"),
    ("resolver.warc.message", "h11"),
    (
        "resolver.warc.recorder",
        "os.path.basename os.path.dirname os.path.exists threading.Lock uuid.uuid4",
    ),
    ("resolver.warc.volume", "os.path.basename"),
    ("resolver.cli.extracting", "hashlib.blake2b"),
    ("resolver.warc.cdx", "json"),
    (
        "resolver.warc.earlier",
        "hashlib.sha256 os.pardir os.path.basename os.path.dirname sqlite3",
    ),
    ("resolver.warc.index", "hashlib.sha1 json"),
    ("resolver.warc.writing", "base64.b32encode hashlib.sha1 warcio"),
    ("resolver.disk.made", "threading.Lock"),
    ("resolver.disk.shelf", "tempfile.TemporaryDirectory"),
    ("resolver.bulk.archives", "atexit threading.Lock uuid.uuid4"),
    ("resolver.bulk.outcomes", "json pyarrow"),
    ("resolver.bulk.requests", "hashlib.blake2b"),
    ("resolver.bulk.run", "distributed json time.monotonic time.sleep uuid.uuid4"),
    ("resolver.bulk.scratch", "distributed"),
    ("resolver.bulk.sent", "distributed zlib"),
    ("resolver.bulk.store", "fsspec"),
    ("resolver.ledger.book", "os.path.relpath"),
    ("resolver.disk.spool", "tempfile.SpooledTemporaryFile"),
    ("resolver.gate.tap", "hashlib.sha256"),
    (
        "resolver.testing",
        "functools pathlib.Path pytest random ssl trio",
    ),
    ("resolver.testing.certificates", "trustme"),
    ("resolver.testing.replay", "socket struct"),
    (
        "resolver.testing.contract",
        "contextvars.ContextVar hashlib.sha256 json os.environ os.listdir socket threading traceback",
    ),
    ("resolver.window.pages.render", "jinja2 markupsafe.Markup"),
    ("resolver.window.pages.caret", "unicodedata"),
    ("resolver.window.pages.document", "hashlib.sha256"),
    ("resolver.window.pages.markup", "html.unescape"),
    ("resolver.window.pages.menu", "shlex.quote"),
    ("resolver.window.pages.mime", "email.message email.message_from_bytes email.policy.compat32"),
    ("resolver.window.dialogue.panel", "base64.b64encode hashlib.sha256 json"),
    ("resolver.window.dialogue.recordings", "contextvars.ContextVar"),
    ("resolver.window.dialogue.words", "unicodedata"),
    # a room that listens: what URLs lead to is opened by the gate alone
    ("resolver.window.listening", "os.geteuid os.path.exists socket ssl struct builtins.open"),
    ("resolver.window.running", "http.client json os.getpid"),
    ("resolver.window.keys", "hashlib.sha256 hmac secrets"),
    ("resolver.window.session", "secrets"),
    ("resolver.window.addresses", "urllib.parse.parse_qsl"),
    ("resolver.window.entrance", "trio.move_on_after"),
    ("resolver.window.reading", "trio.CapacityLimiter trio.Nursery trio.current_time trio.open_nursery"),
    (
        "resolver.window.answers resolver.window.application resolver.window.events resolver.window.gateway "
        "resolver.window.logins "
        "resolver.window.own_pages resolver.window.questions resolver.window.said resolver.window.streamed",
        "starlette",
    ),
    ("resolver.window.bookmarks", "json"),
    (
        "resolver.window.transfers",
        "contextvars.ContextVar os.path.basename trio.CancelScope trio.CapacityLimiter trio.Event trio.Lock "
        "trio.Nursery trio.current_time",
    ),
    ("resolver.window.account", "json os.path.basename"),
    ("resolver.window.events", "json trio.current_time trio.move_on_after trio.sleep"),
    ("resolver.cli.browser", "webbrowser"),
    (
        "resolver.cli.handlers",
        "os.path.abspath os.path.basename os.path.dirname os.path.isabs os.path.join subprocess.DEVNULL "
        "sys.executable trio.run_process",
    ),
    ("resolver.cli.browsing", "trio.sleep_forever"),
    (
        "resolver.window.serve",
        "hypercorn.config hypercorn.logging hypercorn.trio sys.exception trio.BusyResourceError trio.Event "
        "trio.TaskStatus trio.current_time trio.open_nursery",
    ),
    ("resolver.disk", "errno fcntl hashlib heapq json os secrets stat builtins.open"),
    ("resolver.gate.pins", "hashlib.sha256 os.path.join"),
    ("resolver.gate.bulk", "threading.local"),
    ("resolver.disk.durable", "ctypes.CDLL ctypes.c_int ctypes.c_long ctypes.sizeof"),
    ("resolver.gate", "errno fcntl math os secrets socket ssl stat"),
    (
        "resolver.cli",
        "argparse difflib gc hashlib json os.O_CLOEXEC os.O_CREAT os.O_NOCTTY os.O_RDONLY os.O_RDWR "
        "os.O_WRONLY os.close os.fstat os.ftruncate os.get_terminal_size os.open os.read os.stat os.write "
        "signal stat.S_ISREG sys.argv sys.exit "
        "sys.stderr sys.stdin sys.stdout termios textwrap builtins.open",
    ),
    (
        "resolver.cli.devices",
        "os.O_WRONLY os.fstat os.isatty os.stat os.stat_result stat.S_ISCHR stat.S_ISDIR stat.S_ISFIFO",
    ),
    (
        "resolver.cli.console",
        "fcntl.ioctl os.O_NONBLOCK os.tcgetpgrp os.ttyname sys.byteorder trio.lowlevel.wait_writable",
    ),
    ("resolver.cli.outflow", "trio.lowlevel.wait_writable"),
    ("resolver.cli.writing", "os.O_NONBLOCK os.devnull os.dup select.POLLOUT select.poll stat.S_ISFIFO"),
    ("resolver.cli.sitting", "trio.Event trio.sleep_forever"),
    ("resolver.cli.secrets", "keyring trio.run_process"),
    (
        "resolver.cli.netrc",
        "netrc os.SEEK_SET os.dup os.environ os.lseek os.path.expanduser",
    ),
    ("resolver.cli.config", "os.environ tomllib"),
    ("resolver.cli.bars", "io.StringIO rich"),
    ("resolver.cli.columns", "unicodedata"),
    ("resolver.cli.bulk_progress", "time.monotonic"),
    (
        "resolver.cli.clusters",
        "dask.config.set dask.system.CPU_COUNT distributed logging.CRITICAL "
        "multiprocessing.resource_tracker tornado.ioloop.IOLoop",
    ),
    ("resolver.cli.departing", "resolver.portal"),
    (
        "resolver.cli.interrupts",
        "os._exit queue.Empty queue.SimpleQueue sys.UnraisableHookArgs sys.unraisablehook threading.Thread "
        "threading.main_thread time.monotonic time.sleep",
    ),
    ("resolver.cli.verbs", "trio.current_effective_deadline trio.move_on_after"),  # once the end has come
    (
        "resolver.cli",
        "trio.CancelScope trio.current_time "
        "trio.lowlevel.wait_readable trio.open_nursery trio.open_signal_receiver "
        "trio.run trio.sleep trio.to_thread.run_sync",
    ),
)

#: Not even of what is allowed as a whole: other programs, other ends of this one, and the clock where time is
#: a fact that a dialogue is told. `-room`: but there.
NEVER: tuple[tuple[str, str], ...] = (
    (
        "protocols resolver",
        "os.abort os.exec* os.fork* os.kill* os.popen os.posix_spawn* os.putenv os.spawn* "
        "os.startfile os.system trio.lowlevel.open_process ssl._create_unverified_context "
        "socket.gethost* importlib.metadata.version",
    ),
    ("protocols resolver -resolver.cli.interrupts", "os._exit"),  # what a signal ends waits for nobody
    (
        "protocols resolver -resolver.adapters.guard",  # its clients wait, and look up where they are told to
        "socket.create_connection",
    ),
    (
        "protocols resolver -protocols.values -resolver.adapters -resolver.testing",
        "collections.namedtuple typing.NamedTuple",
    ),
    ("resolver.gate", "socket.getaddrinfo"),  # it waits, and everybody with it
    (
        "protocols resolver.policy",
        "datetime.datetime.now datetime.datetime.today datetime.datetime.utcnow datetime.date.today",
    ),
)

#: Builtins that run text, ask the person, or reach a file or a name of another module.
_REACHING = words("__import__ breakpoint compile eval exec globals input locals open")


def uses_what_is_allowed(module: Module) -> list[str]:
    """Every import, and every use of what was imported, is within the list of the module's room."""
    allowed, never = allowed_in(module), _never_in(module)
    used = [use for use in module.uses if _counts(use[0]) and not _is_for_types(module, use[0])]
    found = [
        f"{module.name}:{line} imports {name}, which is not allowed there"
        for name, line in module.run_imports
        if not any(is_within(name, each) or is_within(each, name) for each in allowed)
    ]
    found += [
        f"{module.name}:{line} uses {name}, which is not allowed there"
        for name, line in used
        if not any(is_within(name, each) for each in allowed)
    ]
    found += [
        f"{module.name}:{line} uses {name}, which nobody may"
        for name, line in {*module.run_imports, *used}
        if name.endswith(".*") or any(_matches(name, each) for each in never)
    ]
    return found


def reaches_nothing_by_name(module: Module) -> list[str]:
    """What another module has is named, and never looked up by a text, listed or replaced."""
    return [
        f"{module.name}:{node.lineno} reaches into {what} without a name"
        for node in module.nodes
        if isinstance(node, ast.expr) and (what := _reached(module, node))
    ]


def allowed_in(module: Module) -> frozenset[str]:
    return _named_for(module, ALLOWED)


def _never_in(module: Module) -> frozenset[str]:
    return _named_for(module, NEVER)


def _named_for(module: Module, rows: tuple[tuple[str, str], ...]) -> frozenset[str]:
    return frozenset(
        name
        for rooms, names in rows
        if any(stands_in(module, room) for room in rooms.split())
        if not any(stands_in(module, room[1:]) for room in rooms.split() if room.startswith("-"))
        for name in names.split()
    )


def stands_in(module: Module, room: str) -> bool:
    """`a.__init__` is the package alone; `a` all that is in it."""
    return is_within(f"{module.name}.__init__" if module.is_package else module.name, room)


def _counts(name: str) -> bool:
    top, _, rest = name.partition(".")
    return top != "builtins" or rest.partition(".")[0] in _REACHING


def _is_for_types(module: Module, name: str) -> bool:
    """Is it imported for a type checker alone, who looks at annotations?"""
    return any(is_within(name, each) for each in _for_types(module))


@cache
def _for_types(module: Module) -> frozenset[str]:
    run = {name for name, _ in module.run_imports}
    return frozenset(name for name, _ in module.imports) - run


def _matches(name: str, pattern: str) -> bool:
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return is_within(name, pattern)


_LOOKS = words("builtins.getattr builtins.hasattr")
_REACHES = words("builtins.delattr builtins.dir builtins.setattr builtins.vars")
_INSIDES = words("__builtins__ __dict__ __globals__ __loader__ __subclasses__")


def _reached(module: Module, node: ast.expr) -> str:
    """What an expression reaches into, if it does so otherwise than by a name."""
    match node:
        case ast.Call(args=[value, ast.Constant(), *_]) if module.origin(node.func) in _LOOKS:
            return ""
        case ast.Call(args=[value, *_]) if module.origin(node.func) in _LOOKS | _REACHES:
            return module.origin(value)
        case ast.Attribute(value=value, ctx=ast.Store() | ast.Del()):
            return module.origin(value)
        case ast.Attribute(attr=name) | ast.Name(id=name) if name in _INSIDES:
            return ast.unparse(node)
    return ""
