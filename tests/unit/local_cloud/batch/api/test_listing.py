"""Pages of list_jobs."""

from local_cloud.batch.api.listing import page

THREE = [{"jobId": id_} for id_ in "abc"]


def test_a_page_that_holds_the_rest_has_no_token():
    assert page(THREE, 3, None) == {"jobSummaryList": THREE}
    assert page(THREE, 2, "1") == {"jobSummaryList": THREE[1:]}


def test_the_token_of_a_page_gives_the_next():
    first = page(THREE, 2, None)
    assert first["jobSummaryList"] == THREE[:2]
    assert page(THREE, 2, first["nextToken"]) == {"jobSummaryList": THREE[2:]}
