#!/usr/bin/env python3
"""Reads the test sources of feel-scala and prints their cases as JSON.

    git clone https://github.com/camunda/feel-scala
    python3 extract.py feel-scala > cases.json

A case is one `evaluateExpression(…) should …` or `eval(…) should be(…)` whose parts are literals: the expression, its
variables, the expected value or that it does not parse, and the reported failures. What uses Scala or Java code (own
value mappers, own functions, string interpolation, the clock) is left out, and so are unary tests of DMN.
"""

import json
import pathlib
import re
import sys

FOLDERS = ["src/test/scala/org/camunda/feel/impl", "src/test/scala/org/camunda/feel/impl/interpreter", "src/test/scala/org/camunda/feel/impl/builtin"]


class Unsupported(Exception):
    pass


class Call:
    def __init__(self, name, arguments):
        self.name, self.arguments = name, arguments

    def positional(self):
        return [value for key, value in self.arguments if key is None]

    def get(self, key, at=None):
        for name, value in self.arguments:
            if name == key:
                return value
        plain = self.positional()
        return plain[at] if at is not None and at < len(plain) else None


class Name(str):
    pass


ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "'": "'", '"': '"', "\\": "\\"}


class Scala:
    """The subset of Scala expressions that the cases are written in."""

    def __init__(self, text, at):
        self.text, self.at = text, at

    def skip(self):
        while True:
            match = re.compile(r"\s+|//[^\n]*").match(self.text, self.at)
            if not match:
                return
            self.at = match.end()

    def peek(self, token):
        self.skip()
        return self.text.startswith(token, self.at)

    def take(self, token):
        found = self.peek(token)
        if found:
            self.at += len(token)
        return found

    def expect(self, token):
        if not self.take(token):
            raise Unsupported(f"{token} at {self.text[self.at:self.at + 20]!r}")

    def expression(self):
        left = self.operand()
        while True:
            if self.take("->"):
                left = (left, self.operand())
            elif re.compile(r"\s*and\b").match(self.text, self.at):
                self.skip()
                self.at += 3
                left = Call("and", [(None, left), (None, self.operand())])
            else:
                return left

    def operand(self):
        value = self.primary()
        while self.peek(".") and re.compile(r"\.\s*[a-zA-Z]").match(self.text, self.at):
            self.at += 1
            name = re.compile(r"\s*(\w+)").match(self.text, self.at)
            self.at = name.end()
            arguments = self.arguments() if self.text.startswith("(", self.at) else []
            if isinstance(value, Name):
                value = Call(f"{value}.{name[1]}", arguments) if self.text[self.at - 1] == ")" else Name(f"{value}.{name[1]}")
            elif name[1] == "stripMargin" and isinstance(value, str):
                value = re.sub(r"(?m)^\s*\|", "", value)
            else:
                raise Unsupported(name[1])
        return value

    def primary(self):
        self.skip()
        text = self.text
        if text.startswith('"""', self.at):
            end = text.index('"""', self.at + 3)
            while text.startswith('"', end + 3):
                end += 1
            value, self.at = text[self.at + 3:end], end + 3
            # Scala 2.13 resolves these in raw strings too.
            value = re.sub(r"\\u([0-9A-Fa-f]{4})", lambda code: chr(int(code[1], 16)), value)
            return value.encode("utf-16", "surrogatepass").decode("utf-16")
        if text.startswith('"', self.at):
            return self.short_string()
        if self.take("("):
            value = self.expression()
            self.expect(")")
            return value
        number = re.compile(r"-?[0-9][0-9_]*(\.[0-9_]+)?").match(text, self.at)
        if number:
            self.at = number.end()
            digits = number[0].replace("_", "")
            return float(digits) if number[1] else int(digits)
        name = re.compile(r"[A-Za-z_]\w*").match(text, self.at)
        if not name:
            raise Unsupported(text[self.at:self.at + 20])
        self.at = name.end()
        if text.startswith('"', self.at):
            raise Unsupported("interpolation")
        if text.startswith("(", self.at):
            return Call(name[0], self.arguments())
        return {"true": True, "false": False, "null": None}.get(name[0], Name(name[0]))

    def short_string(self):
        value, self.at = "", self.at + 1
        while self.text[self.at] != '"':
            if self.text[self.at] == "\\":
                self.at += 1
                if self.text[self.at] == "u":
                    value += chr(int(self.text[self.at + 1:self.at + 5], 16))
                    self.at += 4
                else:
                    value += ESCAPES[self.text[self.at]]
            else:
                value += self.text[self.at]
            self.at += 1
        self.at += 1
        return value.encode("utf-16", "surrogatepass").decode("utf-16")

    def arguments(self):
        self.expect("(")
        arguments = []
        while not self.take(")"):
            keyword = re.compile(r"\s*(\w+)\s*=(?![=>])").match(self.text, self.at)
            if keyword:
                self.at = keyword.end()
            arguments.append((keyword[1] if keyword else None, self.expression()))
            self.take(",")
        return arguments


def feel(text):
    return {"$feel": text}


def quoted(function, argument):
    return feel(f'{function}("{argument}")')


PARSERS = {
    "LocalDate.parse": "date", "date": "date", "ValDate": "date",
    "LocalTime.parse": "time", "OffsetTime.parse": "time", "localTime": "time", "time": "time", "ValLocalTime": "time", "ValTime": "time", "ZonedTime.parse": "time",
    "LocalDateTime.parse": "date and time", "ZonedDateTime.parse": "date and time", "localDateTime": "date and time",
    "dateTime": "date and time", "ValLocalDateTime": "date and time", "ValDateTime": "date and time",
    "Duration.parse": "duration", "Period.parse": "duration", "yearMonthDuration": "duration", "dayTimeDuration": "duration",
    "ValYearMonthDuration": "duration", "ValDayTimeDuration": "duration",
}


def plain(value, names):
    """A Scala value as JSON; temporal values and functions as FEEL that makes them."""
    if isinstance(value, Name):
        if value in ("ValNull",):
            return None
        if value == "List.empty" or value == "Nil":
            return []
        if value == "Map.empty":
            return {}
        if value in names:
            return plain(names[value], names)
        raise Unsupported(value)
    if isinstance(value, Call):
        arguments = value.positional()
        if value.name in ("Map", "Map.empty"):
            return {key: plain(item, names) for key, item in arguments}
        if value.name in ("List", "Seq", "Vector"):
            return [plain(item, names) for item in arguments]
        if value.name in ("ValNumber", "ValBoolean", "ValString", "ValList", "BigDecimal") and len(arguments) == 1:
            inner = plain(arguments[0], names)
            return float(inner) if value.name == "BigDecimal" and isinstance(inner, str) else inner
        if value.name == "evaluateFunction":
            return feel(f"({plain(arguments[0], names).strip()})")
        if value.name in PARSERS and len(arguments) == 1:
            inner = arguments[0]
            if isinstance(inner, Call):
                return plain(inner, names)
            if isinstance(inner, str) and not isinstance(inner, Name):
                return quoted(PARSERS[value.name], inner)
        raise Unsupported(value.name)
    if isinstance(value, tuple):
        raise Unsupported("pair")
    return value


def outcome(case, matcher, names):
    if not isinstance(matcher, Call):
        raise Unsupported("matcher")
    arguments = matcher.positional()
    if matcher.name == "and":
        for argument in arguments:
            outcome(case, argument, names)
    elif matcher.name in ("returnResult", "be"):
        case["value"] = plain(arguments[0], names)
    elif matcher.name == "returnNull":
        case["value"] = None
    elif matcher.name == "failToParse":
        case["parses"] = False
    elif matcher.name == "reportFailure":
        kind, message = matcher.get("failureType", 0), matcher.get("failureMessage", 1)
        case.setdefault("warnings", []).append(f"[{kind.split('.')[-1]}] {plain(message, names)}")
    else:
        raise Unsupported(matcher.name)


SKIPPED = {}


def cases(path):
    text = path.read_text()
    titles = [(m.start(), m) for m in re.finditer(r'(?:"((?:[^"\\\n]|\\.)+)"|\b(?:it|ignore))\s+(should)\s+s?"((?:[^"\\\n]|\\.)+)"\s+in', text)]
    values = [(m.end(), m[1]) for m in re.finditer(r"\bval (\w+)(?:: [\w\[\], ]+)? =", text)]
    for start in re.finditer(r"\b(evaluateExpression|eval)(?=\()", text):
        title = [m for at, m in titles if at < start.start()]
        if not title:
            continue
        if title[-1][0].startswith("ignore"):
            continue
        subject = [m[1] for m in title if m[1]]
        names = {}
        for at, name in values:
            if at < start.start():
                try:
                    names[name] = Scala(text, at).expression()
                except (Unsupported, KeyError, ValueError, IndexError):
                    names.pop(name, None)
        try:
            scala = Scala(text, start.end())
            call = Call(start[0], scala.arguments())
            if any(keyword == "context" for keyword, _ in call.arguments):
                raise Unsupported("context")
            should = re.compile(r"\s+should\s*(?=[\w(])").match(text, scala.at)
            if not should:
                raise Unsupported("should")
            scala.at = should.end()
            if text.startswith("be (", scala.at):
                scala.at += len("be ")
                matcher = Call("be", [(None, scala.primary())])
            else:
                matcher = scala.expression()
            case = {"test": f"{path.stem}: {subject[-1] if subject else ''} should {title[-1][3]}"}
            case["expression"] = plain(call.get("expression", 0), names)
            if not isinstance(case["expression"], str):
                raise Unsupported("expression")
            variables = {}
            for keyword, at in (("variables", 1), ("functions", 2)):
                given = call.get(keyword, at)
                if given is not None:
                    variables.update(plain(given, names))
            if variables:
                case["variables"] = variables
            outcome(case, matcher, names)
            yield case
        except (Unsupported, KeyError, ValueError, IndexError, TypeError, AttributeError) as reason:
            SKIPPED[f"{type(reason).__name__}: {reason}"] = SKIPPED.get(f"{type(reason).__name__}: {reason}", 0) + 1


def main():
    checkout = pathlib.Path(sys.argv[1])
    found = []
    for folder in FOLDERS:
        for path in sorted((checkout / folder).glob("*Test.scala")):
            found.extend(cases(path))
    print("[")
    print(",\n".join(json.dumps(case, ensure_ascii=False) for case in found))
    print("]")
    print(f"{len(found)} cases; left out: {sum(SKIPPED.values())} {SKIPPED}", file=sys.stderr)


main()
