from local_cloud.batch.jobs.container import substitute


def test_parameters_are_filled_in_everywhere():
    command = ["run", "--size", "Ref::size", "s3://b/Ref::run_id/Ref::size/", "Ref::unknown"]
    assert substitute(command, {"size": "8", "run_id": "r1"}) == [
        "run",
        "--size",
        "8",
        "s3://b/r1/8/",
        "Ref::unknown",
    ]


def test_a_value_is_not_substituted_again():
    assert substitute(["Ref::a"], {"a": "Ref::b", "b": "no"}) == ["Ref::b"]


def test_a_placeholder_is_matched_as_a_whole():
    assert substitute(["Ref::size_max"], {"size": "1", "size_max": "2"}) == ["2"]
