"""Writes src/pjrtd/_proto/*.py from ../proto: one module for each .proto file, and methods.py from methods.def.

    python tools/gen_proto.py           write the modules
    python tools/gen_proto.py --check   exit 1 if a module on disk differs from what would be written

It reads the part of proto3 that the protocol uses (messages, enums, oneofs, repeated fields, services, line comments)
with the standard library alone, and stops at anything else, so that nothing is dropped in silence.
"""

from __future__ import annotations

import argparse
import keyword
import re
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto"
OUT = HERE.parent / "src" / "pjrtd" / "_proto"

# scalar type -> (Python type, default, wire type)
SCALARS = {
    "int32": ("int", "0", 0),
    "int64": ("int", "0", 0),
    "uint32": ("int", "0", 0),
    "uint64": ("int", "0", 0),
    "bool": ("bool", "False", 0),
    "double": ("float", "0.0", 1),
    "string": ("str", '""', 2),
    "bytes": ("bytes", 'b""', 2),
}


class Field(NamedTuple):
    name: str
    type: str
    number: int
    repeated: bool
    oneof: str  # "" outside a oneof


class Message(NamedTuple):
    name: str
    doc: str
    fields: list[Field]


class Enum(NamedTuple):
    name: str
    doc: str
    values: list[tuple[str, int]]


class File(NamedTuple):
    name: str
    doc: str
    imports: list[str]
    messages: list[Message]
    enums: list[Enum]


class Method(NamedTuple):
    id: int
    family: str
    name: str
    constant: str
    request: str
    reply: str


TOKEN = re.compile(r'\s*(?:(?P<comment>//[^\n]*)|(?P<text>"[^"\n]*")|(?P<word>[A-Za-z_][\w.]*)|(?P<number>\d+)|(?P<mark>[{}=;()]))')


class Parser:
    """A recursive-descent parser of one .proto file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tokens: list[tuple[str, str, int]] = []  # kind, text, line
        source = path.read_text()
        pos = 0
        while source[pos:].strip():
            match = TOKEN.match(source, pos)
            line = source.count("\n", 0, pos) + 1
            if match is None:
                raise SystemExit(f"{path}:{line}: cannot read {source[pos:pos + 30].strip()!r}")
            kind = str(match.lastgroup)
            start = match.start(kind)
            before = source.rfind("\n", 0, start) + 1
            # A comment behind code on its line describes that line, so it is nobody's documentation.
            if kind != "comment" or not source[before:start].strip():
                self.tokens.append((kind, match.group(kind), source.count("\n", 0, start) + 1))
            pos = match.end()
        self.at = 0

    def fail(self, what: str) -> SystemExit:
        line = self.tokens[min(self.at, len(self.tokens) - 1)][2]
        return SystemExit(f"{self.path}:{line}: {what}")

    def comments(self) -> str:
        """The comment block that ends on the line before the next token."""
        lines: list[tuple[str, int]] = []
        while self.at < len(self.tokens) and self.tokens[self.at][0] == "comment":
            _, text, line = self.tokens[self.at]
            if lines and line != lines[-1][1] + 1:
                lines = []
            lines.append((text[2:].strip(), line))
            self.at += 1
        if lines and self.at < len(self.tokens) and self.tokens[self.at][2] != lines[-1][1] + 1:
            return ""
        return "\n".join(text for text, _ in lines)

    def peek(self) -> str:
        self.comments()
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "", kind: str = "") -> str:
        self.comments()
        if self.at >= len(self.tokens):
            raise self.fail("the file ends too early")
        got_kind, text, _ = self.tokens[self.at]
        if (expected and text != expected) or (kind and got_kind != kind):
            raise self.fail(f"expected {expected or kind}, found {text!r}")
        self.at += 1
        return text

    def file(self) -> File:
        lines: list[str] = []
        while self.tokens[self.at][0] == "comment":
            lines.append(self.tokens[self.at][1][2:].strip())
            self.at += 1
        doc = "\n".join(lines)
        result = File(self.path.stem, doc, [], [], [])
        while self.at < len(self.tokens):
            doc = self.comments()
            if self.at >= len(self.tokens):
                break
            word = self.take(kind="word")
            if word == "syntax":
                self.take("=")
                if self.take(kind="text") != '"proto3"':
                    raise self.fail("only proto3 is understood")
                self.take(";")
            elif word == "package":
                self.take(kind="word")
                self.take(";")
            elif word == "import":
                result.imports.append(Path(self.take(kind="text").strip('"')).stem)
                self.take(";")
            elif word == "option":  # of other languages
                self.take("go_package")
                self.take("=")
                self.take(kind="text")
                self.take(";")
            elif word == "message":
                result.messages.append(self.message(doc))
            elif word == "enum":
                result.enums.append(self.enum(doc))
            elif word == "service":
                self.service()
            else:
                raise self.fail(f"{word!r} is not understood")
        return result

    def message(self, doc: str) -> Message:
        message = Message(self.take(kind="word"), doc, [])
        self.take("{")
        while self.peek() != "}":
            if self.peek() == "oneof":
                self.take("oneof")
                oneof = self.take(kind="word")
                self.take("{")
                while self.peek() != "}":
                    message.fields.append(self.field(oneof))
                self.take("}")
            else:
                message.fields.append(self.field(""))
        self.take("}")
        numbers = [field.number for field in message.fields]
        if len(set(numbers)) != len(numbers):
            raise self.fail(f"message {message.name} uses a field number twice")
        return message

    def field(self, oneof: str) -> Field:
        type_name = self.take(kind="word")
        if type_name in ("optional", "map", "reserved", "option", "message", "enum", "group"):
            raise self.fail(f"{type_name!r} is not understood")
        repeated = type_name == "repeated"
        if repeated:
            if oneof:
                raise self.fail("repeated inside a oneof")
            type_name = self.take(kind="word")
        name = self.take(kind="word")
        self.take("=")
        number = int(self.take(kind="number"))
        self.take(";")
        if keyword.iskeyword(name):
            name += "_"  # Python keeps the word for itself
        return Field(name, type_name, number, repeated, oneof)

    def enum(self, doc: str) -> Enum:
        enum = Enum(self.take(kind="word"), doc, [])
        self.take("{")
        while self.peek() != "}":
            name = self.take(kind="word")
            self.take("=")
            enum.values.append((name, int(self.take(kind="number"))))
            self.take(";")
        self.take("}")
        return enum

    def service(self) -> None:
        """The method table is methods.def; services are there for gRPC."""
        self.take(kind="word")
        self.take("{")
        while self.take() != "}":
            pass


METHOD = re.compile(r"^PJRTD_METHOD\((0x[0-9a-fA-F]+), (\w+), (\w+), (\w+), (\w+), (\w+), (\w+)\)$")


def parse_methods(path: Path) -> list[Method]:
    methods: list[Method] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("//"):
            continue
        match = METHOD.match(line.strip())
        if match is None:
            raise SystemExit(f"{path}:{number}: not a method: {line!r}")
        value, family, name, constant, request, reply, _right = match.groups()
        methods.append(Method(int(value, 16), family, name, constant.upper(), request, reply))
    return methods


def tag(number: int, wire: int) -> str:
    """A field's tag as a bytes literal."""
    value, out = number << 3 | wire, ""
    while value > 127:
        out += f"\\x{value & 127 | 128:02x}"
        value >>= 7
    return f'b"{out}\\x{value:02x}"'


class Writer:
    """Python source of one file's messages."""

    def __init__(self, file: File, all_files: dict[str, File]) -> None:
        self.file = file
        self.enums = {e.name for f in all_files.values() for e in f.enums}
        self.home = {m.name: f.name for f in all_files.values() for m in f.messages}
        self.helpers: set[str] = {"Message"}
        self.foreign: dict[str, set[str]] = {}
        self.lines: list[str] = []

    def scalar(self, type_name: str) -> str:
        """The scalar that carries a type; "" for a message."""
        if type_name in self.enums:
            return "int32"
        if type_name in SCALARS:
            return type_name
        if type_name not in self.home:
            raise SystemExit(f"{self.file.name}.proto: unknown type {type_name}")
        home = self.home[type_name]
        if home != self.file.name:
            self.foreign.setdefault(home, set()).add(type_name)
        return ""

    def use(self, helper: str) -> str:
        self.helpers.add(helper)
        return helper

    def source(self) -> str:
        for enum in self.file.enums:
            self.lines += ["", *(f"# {line}" for line in enum.doc.splitlines())]
            self.lines += [f"{name} = {value}" for name, value in enum.values]
        for message in self.file.messages:
            self.message(message)
        head = [f'"""{self.file.doc}' if "\n" in self.file.doc else f'"""{self.file.doc}"""']
        if "\n" in self.file.doc:
            head.append('"""')
        head += [
            "# Written by tools/gen_proto.py from proto/pjrtd/v1/" + self.file.name + ".proto.",
            "",
            "from __future__ import annotations",
            "",
        ]
        if any(field.repeated for message in self.file.messages for field in message.fields):
            head += ["TYPE_CHECKING = False", "if TYPE_CHECKING:", "    from collections.abc import Iterable", ""]
        for home, names in sorted(self.foreign.items()):
            head.append(f"from .{home} import {', '.join(sorted(names))}")
        names = sorted(self.helpers, key=lambda n: (n.lower(), n))
        line = f"from .wire import {', '.join(names)}"
        head += [line] if len(line) < 120 else ["from .wire import ("] + [f"    {n}," for n in names] + [")"]
        return "\n".join(head + self.lines) + "\n"

    def annotation(self, field: Field) -> str:
        scalar = self.scalar(field.type)
        base = SCALARS[scalar][0] if scalar else field.type
        if field.repeated:
            return f"list[{base}]"
        return f"{base} | None" if field.oneof or not scalar else base

    def message(self, message: Message) -> None:
        out = self.lines
        out += ["", "", f"class {message.name}(Message):"]
        if message.doc:
            doc = message.doc.splitlines()
            out.append(f'    """{doc[0]}' + ('"""' if len(doc) == 1 else ""))
            out += [f"    {line}" for line in doc[1:]]
            if len(doc) > 1:
                out.append('    """')
            out.append("")
        slots = ", ".join(f'"{field.name}"' for field in message.fields)
        out.append(f"    __slots__ = ({slots}{',' if len(message.fields) == 1 else ''})")
        if message.fields:
            out += ["", "    def __init__(", "        self,"]
            for field in message.fields:
                scalar = self.scalar(field.type)
                annotation = self.annotation(field)
                if field.repeated:
                    annotation, default = annotation.replace("list[", "Iterable["), "()"
                elif field.oneof or not scalar:
                    default = "None"
                else:
                    default = SCALARS[scalar][1]
                out.append(f"        {field.name}: {annotation} = {default},")
            out.append("    ) -> None:")
            for field in message.fields:
                value = f"list({field.name})" if field.repeated else field.name
                out.append(f"        self.{field.name}: {self.annotation(field)} = {value}")
        self.encoder(message)
        self.decoder(message)

    def put(self, field: Field, value: str, target: str) -> list[str]:
        """Lines that append one value, without its tag."""
        scalar = self.scalar(field.type)
        if scalar:
            return [f"{self.use('put_' + scalar)}({target}, {value})"]
        return [f"{self.use('put_bytes')}({target}, {value}.encode())"]

    def encoder(self, message: Message) -> None:
        out = self.lines
        out += ["", "    def encode(self) -> bytes:"]
        if not message.fields:
            out.append('        return b""')
            return
        out.append("        out = bytearray()")
        oneofs: dict[str, list[str]] = {}
        for field in message.fields:
            if field.oneof:
                oneofs.setdefault(field.oneof, []).append(field.name)
        for oneof, names in oneofs.items():
            values = ", ".join(f"self.{name}" for name in names)
            out.append(f'        {self.use("check_oneof")}("{oneof}", {values})')
        for field in sorted(message.fields, key=lambda f: f.number):
            scalar = self.scalar(field.type)
            wire = SCALARS[scalar][2] if scalar else 2
            value = f"self.{field.name}"
            if field.repeated and scalar and wire != 2:
                out += [f"        if {value}:", "            packed = bytearray()", f"            for value in {value}:"]
                out += ["                " + line for line in self.put(field, "value", "packed")]
                out += [f"            out += {tag(field.number, 2)}"]
                out += [f"            {self.use('put_bytes')}(out, packed)"]
                continue
            lines = [f"out += {tag(field.number, wire)}"]
            if field.repeated:
                out.append(f"        for value in {value}:")
                out += ["            " + line for line in lines + self.put(field, "value", "out")]
                continue
            if field.oneof or not scalar:
                out.append(f"        if {value} is not None:")
            elif scalar == "double":
                out.append(f"        if {self.use('is_set')}({value}):")
            else:
                out.append(f"        if {value}:")
            out += ["            " + line for line in lines + self.put(field, value, "out")]
        out.append("        return bytes(out)")

    def get(self, field: Field) -> str:
        """An expression that reads a scalar at `pos`: (value, next position)."""
        return f"{self.use('get_' + self.scalar(field.type))}(data, pos, end)"

    def decoder(self, message: Message) -> None:
        out = self.lines
        out += ["", "    def merge(self, data: bytes, pos: int, end: int) -> None:", "        while pos < end:"]
        out.append(f"            tag, pos = {self.use('get_tag')}(data, pos, end)")
        branch = "if"
        for field in sorted(message.fields, key=lambda f: f.number):
            scalar = self.scalar(field.type)
            wire = SCALARS[scalar][2] if scalar else 2
            name = f"self.{field.name}"
            others = [f.name for f in message.fields if field.oneof and f.oneof == field.oneof and f is not field]
            out.append(f"            {branch} tag == {field.number << 3 | wire}:")
            branch = "elif"
            if not scalar:
                out.append(f"                size, pos = {self.use('get_size')}(data, pos, end)")
                if field.repeated:
                    out.append(f"                item = {field.type}()")
                    out.append("                item.merge(data, pos, pos + size)")
                    out.append(f"                {name}.append(item)")
                else:
                    out.append(f"                if {name} is None:")
                    out.append(f"                    {name} = {field.type}()")
                    out.append(f"                {name}.merge(data, pos, pos + size)")
                out.append("                pos += size")
            elif field.repeated:
                out.append(f"                value, pos = {self.get(field)}")
                out.append(f"                {name}.append(value)")
                if wire != 2:
                    out.append(f"            elif tag == {field.number << 3 | 2}:")
                    out.append(f"                size, pos = {self.use('get_size')}(data, pos, end)")
                    out.append("                stop = pos + size")
                    out.append("                while pos < stop:")
                    out.append("    " * 5 + f"value, pos = {self.get(field).replace('end', 'stop')}")
                    out.append("    " * 5 + f"{name}.append(value)")
            else:
                out.append(f"                {name}, pos = {self.get(field)}")
            out += [f"                self.{other} = None" for other in others]
        if branch == "elif":
            out += ["            else:", f"                pos = {self.use('skip')}(data, pos, end, tag)"]
        else:
            out.append(f"            pos = {self.use('skip')}(data, pos, end, tag)")


def methods_source(methods: list[Method]) -> str:
    out = [
        '"""The method table: ids as they travel in frames."""',
        "# Written by tools/gen_proto.py from proto/methods.def.",
        "",
        "from __future__ import annotations",
        "",
    ]
    out += [f"{m.constant} = 0x{m.id:04x}" for m in methods]
    out += ["", "# id -> (Family.Name, request message, reply message)", "METHODS: dict[int, tuple[str, str, str]] = {"]
    out += [f'    0x{m.id:04x}: ("{m.family}.{m.name}", "{m.request}", "{m.reply}"),' for m in methods]
    out.append("}")
    return "\n".join(out) + "\n"


def generate(proto: Path = PROTO) -> dict[str, str]:
    """File name -> source of every generated module."""
    files = {path.stem: Parser(path).file() for path in sorted((proto / "pjrtd" / "v1").glob("*.proto"))}
    if not files:
        raise SystemExit(f"no .proto files under {proto}")
    result = {f"{name}.py": Writer(file, files).source() for name, file in files.items()}
    result["methods.py"] = methods_source(parse_methods(proto / "methods.def"))
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description="Writes the message encoders and decoders of the Python client.")
    parser.add_argument("--check", action="store_true", help="only say whether the modules on disk are up to date")
    arguments = parser.parse_args()
    generated = generate()
    written_by_hand = {"__init__.py", "wire.py"}
    stale = [name for name, text in generated.items() if not (OUT / name).exists() or (OUT / name).read_text() != text]
    stale += [path.name for path in OUT.glob("*.py") if path.name not in generated and path.name not in written_by_hand]
    if arguments.check:
        for name in stale:
            print(f"{OUT / name} is not what the .proto files give; run python tools/gen_proto.py", file=sys.stderr)
        return 1 if stale else 0
    for name, text in generated.items():
        (OUT / name).write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
