"""Values that only a check creates: outputs take `Masked`, removals `Proven`, decoders a budget.

mypy enforces the types at each call. The rules here find a writer, a remover or a decoder without such a
type, also in a new module: they start at the calls that write, remove or decode, and not at a list of names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from tests.architecture.source import Module, is_within, words
from tests.octets_in_text import MAKERS

Function = ast.FunctionDef | ast.AsyncFunctionDef

#: Functions with text that is not `Masked`, and the reason.
WRITE_TEXT: Mapping[str, str] = {
    "resolver.cli.streams._write": "the end of all writers of this module",
    "resolver.cli.streams.print_above": "escaped text of `complain` and `note`, or an error page",
    "resolver.cli.streams.note_record": "a record: its values hold masked URLs",
    "resolver.cli.progress.RecordDisplay._report": "a record of an event",
    "resolver.cli.verbs._note": "a record of an outcome",
}

#: Classes with the plain text of a URL, and the reason.
HOLD_PLAIN_URLS: Mapping[str, str] = {
    "resolver.bulk.messages.BulkRequest": "input: a worker logs in with the URL",
    "resolver.cli.targets.CommandTarget": "input: the URL as typed",
    "resolver.files.directory.Proven": "the redacted URL of a directory, for patterns only",
    "resolver.files.part_state.PartState": "compared with the redacted URL of a request",
    "resolver.ledger.report.PendingRow": "read from a ledger, which holds redacted URLs",
    "resolver.ledger.report.FinishedRow": "read from a ledger, which holds redacted URLs",
    "resolver.url.extraction.Extracted": "input: a text of the user",
    "resolver.warc.index.IndexLine": "read from an archive, which holds redacted URLs",
    "resolver.web.access.Certificate": "a chain of certificates, not of URLs",
    "resolver.web.pages.own.OpenedUrl": "a bookmark keeps the URL as the user wrote it",
    "resolver.web.transfers.TransferRequest": "input: the transfer logs in with the URL",
}

#: Functions that remove or rename files without a listing, and the reason.
REMOVE_OWN_FILES: Mapping[str, str] = {
    **{
        f"resolver.files.atomic.{name}": "temporary files and state files of this package"
        for name in ("replace", "write_temporary", "_remove_own", "drop_file", "OutputFiles.write", "forget")
    },
    "resolver.files.directory._remove": "a directory of this run that stayed empty",
    **{
        f"resolver.files.directory.DirectoryHandle.{name}": "the names of one pending file"
        for name in ("give_name", "forget", "replace", "rename")
    },
    "resolver.files.mailbox.Maildir.add": "the second name of a new message",
}

#: Functions that decode without a budget of their own, and the reason.
DECODE_UNLIMITED: Mapping[str, str] = {
    "protocols.http.codings._Inflation": "an `Unpacking`, which only `Decoding` drives",
    "resolver.transfer.extras._Brotli": "an `Unpacking`, which only `Decoding` drives",
    "resolver.transfer.extras._Zstd": "an `Unpacking`, which only `Decoding` drives",
    "resolver.warc.recorder.WarcVolume": "the first bytes of its own archive, up to a constant size",
    "resolver.bulk.slice.fetch_packed": "a task from the scheduler, which may run any code here",
}

_STREAMS = words("sys.stderr.write sys.stdout.write builtins.print")
_LOG = words("debug info warning error exception critical log")


def functions(module: Module) -> Iterator[tuple[str, Function, list[ast.ClassDef | Function]]]:
    """Yield each function with its dotted name and the classes and functions around it."""

    def walk(
        node: ast.AST, around: Sequence[ast.ClassDef | Function]
    ) -> Iterator[tuple[str, Function, list[ast.ClassDef | Function]]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function):
                name = ".".join((module.name, *(each.name for each in around), child.name))
                yield name, child, list(around)
            inside = (*around, child) if isinstance(child, Function | ast.ClassDef) else around
            yield from walk(child, inside)

    return walk(module.tree, ())


def writers_take_masked_text(modules: Sequence[Module]) -> list[str]:
    """Find functions that pass a parameter of another type than `Masked` to a stream, a log or a writer.

    A function that passes its parameter on to a writer is a writer, too.
    """
    known = [
        (module, name, function)
        for module in modules
        if not is_within(module.name, "resolver.testing")
        if re.search(r"stderr|stdout|print|\blog|LOG|streams", module.source)
        for name, function, _ in functions(module)
        if _plain_parameters(function)
    ]
    writers: dict[str, list[str]] = {}
    while True:
        found = {
            name: given
            for module, name, function in known
            if name not in writers and (given := _written(module, function, writers))
        }
        if not found:
            return sorted(writers.keys() - WRITE_TEXT.keys())
        writers |= found


def _written(module: Module, function: Function, writers: Mapping[str, list[str]]) -> list[str]:
    """Return the unmasked text parameters that a function writes."""
    plain = _plain_parameters(function)
    return sorted(
        {
            part.id
            for node in ast.walk(function)
            if isinstance(node, ast.Call) and _is_writer(module, node.func, writers)
            for given in (*node.args, *(each.value for each in node.keywords))
            for part in ast.walk(given)
            if isinstance(part, ast.Name) and part.id in plain
        }
    )


def _plain_parameters(function: Function) -> set[str]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [each for each in (arguments.vararg,) if each is not None]
    return {each.arg for each in every if _is_plain_text(each.annotation)}


def _is_plain_text(annotation: ast.expr | None) -> bool:
    return annotation is not None and any(
        isinstance(node, ast.Name) and node.id in ("str", "object", "Any") for node in ast.walk(annotation)
    )


def _is_writer(module: Module, function: ast.expr, writers: Mapping[str, list[str]]) -> bool:
    origin = module.origin(function)
    own = f"{module.name}.{function.id}" if isinstance(function, ast.Name) else ""
    if origin in _STREAMS or origin in writers or own in writers:
        return True
    match function:
        case ast.Attribute(value=ast.Name(id=logger), attr=name):
            return name in _LOG and "log" in logger.lower()
    return False


#: The fields in which a value holds a URL.
_URLS = words("chain final_url mirror requested_url shown url via")
_VALUES = words("NamedTuple Protocol TypedDict")


def values_hold_masked_urls(module: Module) -> list[str]:
    """Find fields of values that hold a URL as plain text, in the layers whose values are written."""
    if not is_within(module.name, "resolver") or is_within(module.name, "resolver.testing"):
        return []
    if not re.search(rf"^ +(?:{'|'.join(_URLS)}): ", module.source, re.MULTILINE):
        return []
    return [
        f"{module.name}.{node.name}.{field.target.id}"
        for node in module.nodes
        if isinstance(node, ast.ClassDef) and _is_value(node)
        for field in node.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if field.target.id in _URLS and _is_plain_text(field.annotation)
        if f"{module.name}.{node.name}" not in HOLD_PLAIN_URLS
    ]


def _is_value(node: ast.ClassDef) -> bool:
    bases = {ast.unparse(base) for base in node.bases}
    return bool(bases & _VALUES) or any("dataclass" in ast.unparse(each) for each in node.decorator_list)


def only_masks_make_masked_text(module: Module) -> list[str]:
    """Find uses of `Masked` that mypy does not check: starred, passed on, or with an ignored error."""
    if module.name in MAKERS or "Masked" not in module.source:
        return []
    passed = [
        node.lineno
        for node in module.nodes
        if isinstance(node, ast.Call)
        for given in node.args
        if _names(given) == "Masked" or (_names(node.func) == "Masked" and isinstance(given, ast.Starred))
    ]
    ignored = [
        number
        for number, line in enumerate(module.source.splitlines(), 1)
        if "type: ignore" in line and ("unmasked" in line or "Masked" in line)
    ]
    return [f"{module.name}:{number} hides a text from the check of Masked" for number in (*passed, *ignored)]


def _names(node: ast.expr) -> str:
    """Return the last part of a dotted name; of `Proven._make`, the last two parts."""
    parts = ast.unparse(node).split(".") if isinstance(node, ast.Name | ast.Attribute) else [""]
    return ".".join(parts[-2:] if parts[-1] == "_make" else parts[-1:])


#: Modules that create a `Proven`: its class, and the inventory that stores the proven listings.
_PROVERS = ("resolver.files.directory", "resolver.trees.mirror")
_REMOVES = words(
    "os.link os.remove os.removedirs os.rename os.renames os.replace os.rmdir os.unlink "
    "shutil.move shutil.rmtree"
)
_REMOVING_METHODS = words("rmdir rmtree unlink")


def only_proven_listings_remove_files(module: Module) -> list[str]:
    """Find functions that remove or rename files without a `Proven` listing, and makers of `Proven`."""
    if module.package != "resolver" or is_within(module.name, "resolver.testing"):
        return []
    if not re.search(r"\bos\b|shutil|rmdir|rmtree|unlink|Proven|SurplusFile", module.source):
        return []
    found = [
        name
        for name, function, _ in functions(module)
        if any(_removes(module, node) for node in _own_nodes(function))
        if not _requires([function], ("Proven", "SurplusFile")) and name not in REMOVE_OWN_FILES
    ]
    makers = [
        f"{module.name}:{node.lineno} makes a Proven"
        for node in module.nodes
        if isinstance(node, ast.Call) and module.name not in _PROVERS
        if _names(node.func) in ("Proven", "SurplusFile", "Proven._make", "SurplusFile._make")
    ]
    return found + makers


def _removes(module: Module, node: ast.AST) -> bool:
    match node:
        case ast.Name() | ast.Attribute() if module.origin(node) in _REMOVES:
            return True
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _REMOVING_METHODS
    return False


_DECODERS = words("bz2 gzip lzma tarfile zipfile")


def decoders_require_budget(module: Module) -> list[str]:
    """Find functions and classes that decode without a budget as a required argument.

    A class requires a budget if its `__init__` does. An `Unpacking` is driven only by a function or class
    with a budget.
    """
    if not re.search(r"(?i)decompress|bz2|gzip|lzma|tarfile|zipfile|Unpacking", module.source):
        return []
    found = [
        ".".join((module.name, around[0].name)) if around else name
        for name, function, around in functions(module)
        if any(_decodes(module, node) for node in _own_nodes(function))
        if not _requires([function, *_constructors(around)], ("Budget",))
    ]
    found += [
        name
        for name, function, _ in functions(module)
        if _requires([function], ("Unpacking",)) and not _requires([function], ("Budget",))
    ]
    return sorted(set(found) - DECODE_UNLIMITED.keys())


def _constructors(around: Sequence[ast.ClassDef | Function]) -> list[Function]:
    inside = around[-1] if around and isinstance(around[-1], ast.ClassDef) else None
    return [
        each
        for each in (inside.body if inside is not None else ())
        if isinstance(each, Function) and each.name == "__init__"
    ]


def _requires(candidates: Sequence[Function], wanted: Sequence[str]) -> bool:
    """Return whether a function has a parameter without a default whose type ends with one of the names."""
    for function in candidates:
        arguments = function.args
        positional = [*arguments.posonlyargs, *arguments.args]
        required = positional[: len(positional) - len(arguments.defaults)]
        required += [
            each
            for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if default is None
        ]
        for each in required:
            if each.annotation is not None and _names(each.annotation).endswith(tuple(wanted)):
                return True
    return False


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of the functions in it."""
    for child in ast.iter_child_nodes(function):
        yield child
        if not isinstance(child, Function | ast.ClassDef):
            yield from _own_nodes(child)


def _decodes(module: Module, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = module.origin(node.func)
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    return called.partition(".")[0] in _DECODERS or "decompress" in name.lower()
