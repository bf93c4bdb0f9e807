"""Whether a value is what a JSON schema of schemas/json/ says, by the keywords that those use. One
that is not known here is an error, so that none is passed over."""
import json
import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "schemas/json"
NOTES = {"$schema", "$defs", "title", "description"}
TYPES = {
    "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None),
    "integer": int, "number": (int, float)
}


def is_type(value, name):
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def of_object(value, schema, root, place):
    properties = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in value:
            yield f"{place} has no {name}"
    for name, part in value.items():
        if name in properties:
            yield from problems(part, properties[name], root, f"{place}.{name}")
        elif matching := [part for pattern, part in schema.get("patternProperties", {}).items()
                          if re.search(pattern, name)]:
            yield from problems(value[name], matching[0], root, f"{place}.{name}")
        elif schema.get("additionalProperties", True) is False:
            yield f"{place} has an unknown {name}"
        elif isinstance(schema.get("additionalProperties"), dict):
            yield from problems(part, schema["additionalProperties"], root, f"{place}.{name}")


def of_array(value, schema, root, place):
    if len(value) > schema.get("maxItems", len(value)):
        yield f"{place} has {len(value)} items"
    for i, part in enumerate(value):
        yield from problems(part, schema.get("items", {}), root, f"{place}[{i}]")


def problems(value, schema, root=None, place="it"):
    """What is wrong, as sentences."""
    root = root or schema
    if "$ref" in schema:
        parts = schema["$ref"].removeprefix("#/").split("/")
        schema = root
        for part in parts:
            schema = schema[part]
    known = NOTES | {"type", "enum", "minimum", "maximum", "required", "properties",
                     "patternProperties", "additionalProperties", "items", "maxItems"}
    if set(schema) - known:
        raise ValueError(f"{set(schema) - known}: unknown to {__file__}")
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(is_type(value, kind) for kind in kinds):
        yield f"{place} is {value!r}, and no {' or '.join(kinds)}"
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{place} is {value!r}, and none of {schema['enum']}"
    elif isinstance(value, dict):
        yield from of_object(value, schema, root, place)
    elif isinstance(value, list):
        yield from of_array(value, schema, root, place)
    elif is_type(value, "number"):
        if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            yield f"{place} is {value}"


def check(checks, value, name):
    """As checks.that() for a schema of that name."""
    wrong = list(problems(value, json.loads((FOLDER / f"{name}.json").read_text())))
    checks.that(not wrong, f"{name}: {wrong[:5]}")


def check_report(checks, rows, name):
    """The same for a report's rows, of which there must be some."""
    root = json.loads((FOLDER / "reports.json").read_text())
    wrong = list(problems(rows, root["$defs"][name], root, name))
    checks.that(rows and not wrong, f"{name}: {rows[:2]}: {wrong[:5]}")
