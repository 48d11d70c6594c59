import boto3
import pytest

from tests.builders.libraries import Shelf, installation
from tests.stand_ins.visitors import Pages


@pytest.fixture
def shelf(monkeypatch):
    made = Shelf()
    monkeypatch.setattr(boto3, "client", lambda *_, **__: made.s3)
    return made


@pytest.fixture
def pages(monkeypatch, shelf):
    return Pages(monkeypatch, shelf, installation())
