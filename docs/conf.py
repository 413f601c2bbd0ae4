"""The configuration of Sphinx for the site of the documentation.

`make docs` writes the site to build/docs, without network access.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.addnodes import pending_xref

import resolver

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

CHECKOUT = Path(__file__).parents[1]

project = "url-resolver"
version = release = resolver.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "index"
smartquotes = False  # An option begins with two hyphens, not with a dash.
highlight_language = "text"  # Sphinx tries Python by default, and most blocks are shell sessions.

html_theme = "furo"
html_title = "resolve"
html_static_path = ["assets"]
html_css_files = ["site.css"]
html_show_sphinx = html_show_copyright = False
html_copy_source = False
pygments_style, pygments_dark_style = "default", "github-dark"

myst_heading_anchors = 4

autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_type_aliases = {"JsonValue": "JsonValue"}
python_use_unqualified_type_names = True
maximum_signature_line_length = 88
napoleon_use_ivar = True
toc_object_entries_show_parents = "hide"

#: The pages of the site whose text is a file at the top of the checkout.
TOP_PAGES = {
    "overview": "README.md",
    "project/changelog": "CHANGELOG.md",
    "project/contributing": "CONTRIBUTING.md",
    "project/security": "SECURITY.md",
}
_DOCNAMES = {file: docname for docname, file in TOP_PAGES.items()}

#: A link to a file at the top of the checkout, or from there to a page of the site.
_LINK = re.compile(rf"\]\((?:(?:\.\./)*({'|'.join(_DOCNAMES)})|docs/)")
#: A code block of a docstring, which stays as it is; or a code span.
_CODE = re.compile(r"^::\n\n(?:(?: {4}.*)?\n)+|(?<!`)`([^`]+)`s?(?!`)", re.MULTILINE)
#: The line before an indented block that is not the body of a section.
_BEFORE_BLOCK = re.compile(r"^(?! |- )(?!\w+:$)(.*\n)\n(?=    (?!>>>))", re.MULTILINE)
#: The line before a list.
_BEFORE_LIST = re.compile(r"^(?![ -])(.+\n)(?=- )", re.MULTILINE)

#: A colon in the first line of an attribute: Napoleon reads the text before it as a type.
_COLON = "\N{RATIO}"
#: A name of `autodoc_type_aliases`, as Sphinx shows it.
_ALIAS = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")
#: The type of the fields of named tuples.
_Field = type(resolver.Referrer.url)


def read_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Take the text below the title of a page in `TOP_PAGES` from its file; adapt the links of each page."""
    if docname in TOP_PAGES:
        path = CHECKOUT / TOP_PAGES[docname]
        app.env.note_dependency(path)
        title = source[0].splitlines()[0]
        source[0] = re.sub(r"\A# .*", title, path.read_text(encoding="utf-8"))
    source[0] = _LINK.sub(lambda link: f"](/{_DOCNAMES[link[1]]}.md" if link[1] else "](/", source[0])


def link_code(match: re.Match[str]) -> str:
    """Return a match of `_CODE` in reStructuredText: a link if it is a public class, or `resolver.NAME`."""
    code = match[1]
    if code is None:
        return match[0]
    name = code.removeprefix("resolver.")
    if name in resolver.__all__ and (name != code or name[0].isupper()):
        span = f":py:obj:`{code} <resolver.{name}>`"
    else:
        span = f"``{code}``"
    return f"{span}\\ s" if match[0].endswith("s") else span


def convert_docstring(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Convert code spans, code blocks and lists from Markdown to reStructuredText."""
    text = _BEFORE_LIST.sub(r"\1\n", _BEFORE_BLOCK.sub(r"\1\n::\n\n", "\n".join(lines)))
    lines[:] = _CODE.sub(link_code, text).split("\n")
    if what in ("attribute", "property"):
        lines[0] = lines[0].replace(":", _COLON)


def restore_colon(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Restore the colons that `convert_docstring` hides from Napoleon."""
    lines[:] = [line.replace(_COLON, ":") for line in lines]


def simplify_signature(
    app: Sphinx,
    what: str,
    name: str,
    value: object,
    options: object,
    signature: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    """Replace `<factory>` of dataclasses, which Sphinx cannot parse, and unwrap the names of aliases."""
    signature = signature and _ALIAS.sub(r"\1", signature.replace("<factory>", "..."))
    return signature, returned and _ALIAS.sub(r"\1", returned)


def adapt_tree(app: Sphinx, tree: nodes.document) -> None:
    """Put the dash between a parameter and its text, and let a type lead to its full name alone.

    Otherwise the type `bytes` is a reference to each attribute of this name.
    """
    for text in list(tree.findall(nodes.Text)):
        if text == " -- ":
            text.parent.replace(text, nodes.Text(" \N{EN DASH} "))
    for node in tree.findall(pending_xref):
        node.attributes.pop("refspecific", None)


def find_type(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, text: nodes.TextElement
) -> nodes.Element | None:
    """Return the link of a type, by its shortest name; the text alone if the reference lacks the type."""
    target = node["reftarget"]
    if node["refdomain"] != "py" or re.fullmatch(r"resolver\.\w+", target):
        return None
    domain = env.domains.python_domain
    name = target.rpartition(".")[2]
    names = [full for full in domain.objects if full.endswith(f".{name}") and name[0].isupper()]
    full = min(names, key=len, default="")
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", full, node, text) or text


def is_field(app: Sphinx, what: str, name: str, value: object, skip: bool, options: object) -> bool | None:
    """Return True for a field of a named tuple: the docstring of the class describes it."""
    return True if isinstance(value, _Field) else None


def setup(app: Sphinx) -> None:
    """Connect the functions of this file to the events of Sphinx."""
    app.connect("source-read", read_page)
    app.connect("autodoc-process-docstring", convert_docstring, priority=400)  # Napoleon has 500.
    app.connect("autodoc-process-docstring", restore_colon, priority=600)
    app.connect("autodoc-process-signature", simplify_signature)
    app.connect("autodoc-skip-member", is_field)
    app.connect("doctree-read", adapt_tree)
    app.connect("missing-reference", find_type)
