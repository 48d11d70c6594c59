"""What no good program writes, drawn by Hypothesis: documents, files and settings.

Drawn of a JSON Schema and a good example, as wrong values are found soonest one by one.
"""

import copy
import json
from datetime import UTC, datetime

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

LIMITS = (2**31, 2**63, 10**400, -1, 0, 5e-324, 1e-12, 1e9, 1e18, 1e308, -1e308)
FAR_DATES = ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "1970-01-01T00:00:00Z")
# Ends lines, steers terminals, turns directions, hides; gives orders, computes and is markup.
STEERING = (
    "\n::error file=a::forged\r##[error]forged\x1b[2K\x07\x00\x7f\x85\u2028\u2029"
    "\u202e\u2066\u200b\ufeff\n=1+1 | <b> `x`"
)
ODD_TEXTS = (
    STEERING,
    "",
    "\0",
    "\ud800",
    "<script>alert(1)</script>",
    "[/b]",
    "{{ 7 * 7 }}",
    "a\nb",
    "x" * 3000,
)
ODD_OTHERS = (None, True, [], {}, [[]], [None] * 200, {"a": {}}, float("nan"), float("inf"))
HOSTILE = st.one_of(
    st.sampled_from((*LIMITS, *FAR_DATES, *ODD_TEXTS, *ODD_OTHERS)),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
)
ANY_JSON = st.recursive(
    HOSTILE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
DEEP = st.builds(lambda opening, depth: opening * depth, st.sampled_from("[{"), st.just(5000))


def fuzzed(examples):
    """How many examples; the same in each run unless they are many."""
    return settings(
        max_examples=examples,
        derandomize=examples < 1000,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


def fuzz(examples, check, *strategies):
    """Check as many drawn values."""

    @given(st.tuples(*strategies))
    @fuzzed(examples)
    def check_drawn(drawn):
        check(*drawn)

    check_drawn()


def texts(good, schema):
    """Texts in place of the JSON of `good`, most of them near it."""
    body = json.dumps(good).encode()
    return st.one_of(
        *[changed(good, schema).map(lambda value: json.dumps(value).encode())] * 6,
        allowed(schema, schema["$defs"]).map(
            lambda value: json.dumps(value | identity(good)).encode()
        ),
        damaged(body),
        st.binary(max_size=50),
        (ANY_JSON.map(json.dumps) | DEEP).map(str.encode),
    )


def identity(good):
    """What tells whose document it is."""
    return {name: value for name, value in good.items() if isinstance(value, str | int)}


@st.composite
def damaged(draw, body):
    """Bytes with some of them wrong or missing."""
    found = bytearray(body)
    for _ in range(draw(st.integers(0, 3))):
        found[draw(st.integers(0, len(found) - 1))] = draw(st.integers(0, 255))
    return bytes(found[: draw(st.sampled_from((None, None, len(found) // 2, -1)))])


@st.composite
def changed(draw, good, schema):
    """JSON with up to four values replaced: by allowed ones, hostile ones, none, or doubled."""
    found = copy.deepcopy(good)
    places = [*places_of(good, schema, schema["$defs"])]
    for _ in range(draw(st.integers(0, 4))):
        (*parents, last), part = draw(st.sampled_from(places))
        how = draw(st.sampled_from(("allowed", "allowed", "hostile", "gone", "twice")))
        try:
            parent = inside(found, parents)
            if how == "gone":
                del parent[last]
            elif how == "twice":
                parent.insert(last, copy.deepcopy(parent[last]))
            else:
                parent[last] = draw(allowed(part, schema["$defs"]) if how == "allowed" else HOSTILE)
        except (AttributeError, LookupError, TypeError):  # an earlier change took the place away
            continue
    return found


def paths_in(value, above=()):
    """The path of each value in JSON."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*above, key)
        if isinstance(item, dict | list):
            yield from paths_in(item, (*above, key))


def inside(value, path):
    """What a path leads to."""
    for key in path:
        value = value[key]
    return value


def places_of(value, schema, definitions, path=()):
    """The path of each value in JSON, with its schema."""
    schema = _resolved(schema, value, definitions)
    if path:
        yield path, schema
    if isinstance(value, dict):
        for name, item in value.items():
            inner = schema.get("properties", {}).get(name) or schema["additionalProperties"]
            yield from places_of(item, inner, definitions, (*path, name))
    elif isinstance(value, list):
        for place, item in enumerate(value[:3]):
            yield from places_of(item, schema["items"], definitions, (*path, place))


def _resolved(schema, value, definitions):
    if "$ref" in schema:
        return _resolved(definitions[schema["$ref"].rpartition("/")[2]], value, definitions)
    if "anyOf" in schema and isinstance(value, dict | list):
        kind = "object" if isinstance(value, dict) else "array"
        resolved = (_resolved(option, None, definitions) for option in schema["anyOf"])
        return next(option for option in resolved if option.get("type") == kind)
    return schema


def allowed(schema, definitions):
    """Values that a JSON Schema allows, those at its bounds among them."""
    if "$ref" in schema:
        return allowed(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        return st.one_of(*(allowed(option, definitions) for option in schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return st.sampled_from(schema.get("enum") or [schema["const"]])
    return _KINDS[schema["type"]](schema, definitions)


def _integers(schema, _):
    low = schema.get("minimum", schema.get("exclusiveMinimum", -(2**70)) + 1)
    high = schema.get("maximum", schema.get("exclusiveMaximum", 2**70) - 1)
    return st.sampled_from((low, high)) | st.integers(low, high)


def _numbers(schema, _):
    low = schema.get("minimum", schema.get("exclusiveMinimum", -1e308))
    high = schema.get("maximum", schema.get("exclusiveMaximum", 1e308))
    return st.sampled_from((low or 5e-324, high)) | st.floats(low, high, allow_nan=False)


def _texts(schema, _):
    if schema.get("format") == "date-time":
        first, last = datetime(1970, 1, 2), datetime(2199, 12, 31)  # noqa: DTZ001, as Hypothesis asks
        moments = st.datetimes(first, last, timezones=st.just(UTC))
        return st.sampled_from((first, last)).map("{}Z".format) | moments.map(datetime.isoformat)
    longest = schema.get("maxLength", 20)
    return st.text(max_size=min(longest, 20)) | st.just("x" * longest)


def _arrays(schema, definitions):
    return st.lists(allowed(schema["items"], definitions), max_size=min(schema["maxItems"], 3))


def _objects(schema, definitions):
    if "properties" not in schema:
        inner = schema["additionalProperties"]
        return st.dictionaries(st.text(max_size=5), allowed(inner, definitions), max_size=2)
    fields = {name: allowed(part, definitions) for name, part in schema["properties"].items()}
    needed = {name: fields.pop(name) for name in schema.get("required", ())}
    return st.fixed_dictionaries(needed, optional=fields)


_KINDS = {
    "integer": _integers,
    "number": _numbers,
    "string": _texts,
    "array": _arrays,
    "object": _objects,
    "null": lambda *_: st.none(),
    "boolean": lambda *_: st.booleans(),
}
