"""The picture of docs/measurement.md."""

from tests.documented import arguments, the_command


def test_it_is_drawn_again_as_it_is(tmp_path, monkeypatch):
    from benchmarks.job import measurement_picture  # and matplotlib, which no other test needs

    assert arguments(the_command("python -m benchmarks.job."))[1] == measurement_picture.__name__
    committed = measurement_picture.PICTURE.read_text()
    monkeypatch.setattr(measurement_picture, "ROOT", tmp_path)
    monkeypatch.setattr(measurement_picture, "PICTURE", tmp_path / "drawn.svg")
    measurement_picture.main()
    assert measurement_picture.PICTURE.read_text() == committed
