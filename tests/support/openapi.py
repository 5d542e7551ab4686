#!/usr/bin/env python3
"""Checks answers of the scheduler against its document: openapi.py DOCUMENT [PATH STATUS FILE]...

Stricter than JSON Schema: an answer may have no key that the document does not name. Each answer is
also broken in several ways, and each broken one must be refused: a check that accepts all is none.
"""
import copy
import json
import re
import sys

TYPES = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list,
    "object": dict, "null": type(None),
}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
KNOWN = {
    "$ref", "anyOf", "type", "enum", "pattern", "format", "properties", "required", "items",
    "additionalProperties", "description", "minimum", "maximum", "maxLength", "default",
}


def resolve(document, schema):
    while "$ref" in schema:
        part = document
        for name in schema["$ref"].removeprefix("#/").split("/"):
            part = part[name]
        schema = part
    return schema


def is_type(value, name):
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, TYPES[name])


def check_object(document, schema, value, at):
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties")
    for key in schema.get("required", []):
        if key not in value:
            yield f"{at}: no {key}"
    for key, item in value.items():
        if key in properties:
            yield from check(document, properties[key], item, f"{at}.{key}")
        elif others is not None:
            yield from check(document, others, item, f"{at}.{key}")
        elif properties:
            yield f"{at}: {key} is not in the document"


def check(document, schema, value, at):
    """The differences, as sentences."""
    schema = resolve(document, schema)
    assert set(schema) <= KNOWN, f"{at}: {set(schema) - KNOWN} are not known here"
    if "anyOf" in schema:
        tries = [list(check(document, one, value, at)) for one in schema["anyOf"]]
        if [] not in tries:
            yield from tries[0]
        return
    names = schema.get("type", [])
    names = [names] if isinstance(names, str) else names
    if names and not any(is_type(value, name) for name in names):
        yield f"{at}: {json.dumps(value)[:60]} is no {' or '.join(names)}"
        return
    if value is None:
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value} is none of {schema['enum']}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{at}: {value} does not match {schema['pattern']}"
    if schema.get("format") == "date-time" and not TIME.fullmatch(value):
        yield f"{at}: {value} is no time"
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from check(document, schema["items"], item, f"{at}[{index}]")
    if isinstance(value, dict):
        yield from check_object(document, schema, value, at)


def schema_of(document, path, status):
    method = "post" if "/requests/" in path else "get"
    responses = document["paths"][path][method]["responses"]
    content = resolve(document, responses.get(status) or responses["default"])["content"]
    (kind,) = content.values()
    return kind["schema"]


def objects(value):
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
        yield from objects(item)


def broken(answer):
    """Copies of the answer, each with one mistake at its outermost object."""
    for key in answer:
        without = copy.deepcopy(answer)
        del without[key]
        yield f"without {key}", without
        other = copy.deepcopy(answer)
        other[key] = [{"surprise": 1}]
        yield f"with another {key}", other
    yield "with a key more", {**answer, "surprise": 1}
    for index, _ in enumerate(list(objects(answer))[1:20], 1):
        more = copy.deepcopy(answer)
        inner = list(objects(more))[index]
        inner["surprise"] = {"deep": 1}
        yield f"with a key more in object {index}", more


def main(document, answers):
    document = json.load(open(document, encoding="utf-8"))
    problems, count = [], 0
    assert document["openapi"].startswith("3.1.")
    while answers:
        path, status, file, *answers = answers
        answer = json.load(open(file, encoding="utf-8"))
        schema = schema_of(document, path, status)
        problems += list(check(document, schema, answer, path))
        count += 1
        optional = set(answer) - set(resolve(document, schema).get("required", []))
        for mistake, wrong in broken(answer) if resolve(document, schema).get("properties") else []:
            if mistake.removeprefix("without ") not in optional and not list(check(document, schema, wrong, path)):
                problems.append(f"{path} {mistake} is accepted")
    print("\n".join(problems[:20]) or f"{count} answers are as the document says")
    return 1 if problems or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
