#!/usr/bin/env python3
"""Reads the DMN Technology Compatibility Kit and prints the cases of its literal expressions as JSON.

    git clone https://github.com/dmn-tck/tck
    python3 extract.py tck > cases.json

A case is one expected result of a decision that is a literal expression, needs no other decision or knowledge model,
and reads only inputs whose names FEEL can write without spaces. Only the suites about FEEL (`…-feel-…`) and arithmetic are
read, without the one about coercion to declared types.
"""

import json
import pathlib
import re
import sys
import xml.etree.ElementTree as xml

NIL = "{http://www.w3.org/2001/XMLSchema-instance}nil"
TYPE = "{http://www.w3.org/2001/XMLSchema-instance}type"
CALLS = {"date": "date", "time": "time", "dateTime": "date and time", "duration": "duration", "dayTimeDuration": "duration", "yearMonthDuration": "duration"}


class Unsupported(Exception):
    pass


def local(element):
    return element.tag.rsplit("}", 1)[-1]


def children(element, name):
    return [child for child in element if local(child) == name]


def value(element):
    """The value inside of `expected`, `item`, `component` or `inputNode`."""
    parts = children(element, "component")
    if parts:
        return {part.get("name"): value(part) for part in parts}
    lists = children(element, "list")
    if lists:
        return None if lists[0].get(NIL) == "true" else [value(item) for item in children(lists[0], "item")]
    values = children(element, "value")
    if not values:
        return None
    found = values[0]
    if found.get(NIL) == "true":
        return None
    text, kind = found.text or "", (found.get(TYPE) or "string").split(":")[-1]
    if kind == "boolean":
        return text.strip() == "true"
    if kind in ("decimal", "double", "integer", "int", "long", "float"):
        number = text.strip()
        try:
            return int(number)
        except ValueError:
            return float(number)
    if kind in CALLS:
        return {"$feel": f'{CALLS[kind]}("{text.strip()}")'}
    if kind == "string":
        return text
    raise Unsupported(kind)


def expressions(model):
    """Decision name to expression, for those that stand alone."""
    found = {}
    for decision in children(model, "decision"):
        literal = children(decision, "literalExpression")
        requirements = [local(target) for requirement in decision if local(requirement).endswith("Requirement") for target in requirement]
        if literal and all(target == "requiredInput" for target in requirements):
            text = children(literal[0], "text")
            if text and text[0].text:
                found[decision.get("name")] = text[0].text
    return found


def cases(folder):
    model_file = next(folder.glob("*.dmn"), None)
    if model_file is None:
        return
    known = expressions(xml.parse(model_file).getroot())
    for tests in sorted(folder.glob("*-test-*.xml")):
        for case in children(xml.parse(tests).getroot(), "testCase"):
            for result in children(case, "resultNode"):
                if result.get("name") not in known:
                    continue
                try:
                    variables = {node.get("name"): value(node) for node in children(case, "inputNode")}
                    if not all(re.fullmatch(r"\w+", name) for name in variables):
                        continue
                    expected = children(result, "expected")
                    found = {
                        "test": f"{folder.name} {case.get('id')}",
                        "expression": known[result.get("name")],
                        "value": value(expected[0]) if expected and result.get("errorResult") != "true" else None,
                    }
                except (Unsupported, OverflowError):
                    continue
                if variables:
                    found["variables"] = variables
                yield found


def main():
    root = pathlib.Path(sys.argv[1]) / "TestCases"
    found = []
    for level in ("compliance-level-2", "compliance-level-3"):
        for folder in sorted((root / level).iterdir()):
            # Coercion is about the declared types of decisions, which an expression alone does not have.
            if re.match(r"\d+-(feel-|arithmetic)", folder.name) and "coercion" not in folder.name:
                found.extend(cases(folder))
    print("[")
    print(",\n".join(json.dumps(case, ensure_ascii=False) for case in found))
    print("]")
    print(f"{len(found)} cases", file=sys.stderr)


main()
