"""Every variable that users set says what it is, and refuses what can't be meant."""

from functools import cache

import hcl2
import pytest

from tests.terraform.conftest import SOURCE

STACKS = [SOURCE, *sorted((SOURCE / "stacks").iterdir())]
FOLDERS = [*STACKS, *sorted((SOURCE / "modules").iterdir())]
ANY_TEXT = {"ami_release"}


@cache
def blocks(folder, kind):
    """Each block of a kind by its name, from all files of a folder."""
    options = hcl2.SerializationOptions(explicit_blocks=False)
    found = {}
    for file in sorted(folder.glob("*.tf")):
        with file.open() as text:
            for block in hcl2.load(text, serialization_options=options).get(kind, ()):
                ((name, content),) = block.items()
                found[name.strip('"')] = content
    return found


def is_checked(folder, name):
    """Whether a variable refuses something, or a module does so with what it is given."""
    variable = blocks(folder, "variable")[name]
    if variable["type"] in ("bool", "${bool}") or variable.get("validation"):
        return True
    modules = [
        (module, (folder / module["source"].strip('"')).resolve())
        for module in blocks(folder, "module").values()
    ]
    return any(
        f"var.{name}" in str(value)
        and argument in blocks(source, "variable")
        and is_checked(source, argument)
        for module, source in modules
        for argument, value in module.items()
    )


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_it_has_a_type_and_a_description(folder):
    lacking = [
        name
        for name, variable in blocks(folder, "variable").items()
        if not variable.get("type") or not variable.get("description")
    ]
    assert not lacking


@pytest.mark.parametrize("folder", STACKS, ids=lambda folder: folder.name)
def test_it_refuses_what_can_not_be_meant_and_drops_no_misspelt_field_for_its_default(folder):
    """As Terraform does where a type has optional fields: leave it to a module that is also given
    what was written, or take a map and list the fields."""
    variables = blocks(folder, "variable")
    assert {name for name in variables if not is_checked(folder, name)} <= ANY_TEXT
    assert [name for name in variables if "optional(" in str(variables[name]["type"])] == []
