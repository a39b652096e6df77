"""Last pass: the lowered spec through templates, one an output. Decides nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from . import ctext, examples, lower, markdown, python

TEMPLATES = Path(__file__).parent / "templates"

# Output → template; what belongs to one backend is listed by its form.
OUTPUTS = {
    "generated/aya_ops.h": "aya_ops.h.j2",
    "generated/aya_ops.c": "aya_ops.c.j2",
    "generated/aya_inline.c": "aya_inline.c.j2",
    "generated/aya_backends.c": "aya_backends.c.j2",
    "generated/aya_config.h": "aya_config.h.j2",
    "generated/aya_config.c": "aya_config.c.j2",
    "generated/aya_python_ops.h": "aya_python_ops.h.j2",
    "generated/aya_python_ops.c": "aya_python_ops.c.j2",
    "generated/aya_examples.h": "aya_examples.h.j2",
    "generated/aya_examples.c": "aya_examples.c.j2",
    "generated/examples.json": "examples.json.j2",
    "docs/operations.md": "operations.md.j2",
    "docs/configuration.md": "configuration.md.j2",
    "python/ayafileio/_ayafileio.pyi": "_ayafileio.pyi.j2",
}
FORMS = {
    "call": "backend_call.c.j2",
    "sqe": "backend_sqe.c.j2",
    "iocb": "backend_iocb.c.j2",
    "overlapped": "backend_overlapped.c.j2",
    "dispatch": "backend_dispatch.c.j2",
}


@dataclass(frozen=True)
class Output:
    path: str
    backend: str  # "" where it belongs to all
    text: str


def environment() -> jinja2.Environment:
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    env.filters.update(q=ctext.quoted, text=ctext.wrapped_text, cell=markdown.cell,
                       docstring=python.stub_docstring)
    env.globals.update(call=ctext.call, paragraph=ctext.paragraph, code=lower.code,
                       enum_type=lower.enum_type, enum_word=lower.enum_word, py=python,
                       ex=examples, md=markdown)
    return env


def render(lowered: lower.Lowered) -> list[Output]:
    env = environment()
    common: dict[str, Any] = {
        "ops": lowered.ops,
        "backends": lowered.backends,
        "root": lowered.root(),
        "options": lowered.spec.options,
    }
    outputs = [
        Output(path, "", env.get_template(name).render(common)) for path, name in OUTPUTS.items()
    ]
    for lowered_backend in lowered.backends:
        name = lowered_backend.backend.name
        template = env.get_template(FORMS[lowered_backend.backend.form])
        text = template.render(common, b=lowered_backend, backend=lowered_backend.backend)
        outputs.append(Output(f"generated/aya_{name}.c", name, text))
    return sorted(outputs, key=lambda output: output.path)
