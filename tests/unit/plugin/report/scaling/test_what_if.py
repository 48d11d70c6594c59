"""The page of predictions: marked as such, with its check, its figures and what it assumes."""

import html
import re

from batchmark.report.page import page_html
from batchmark.report.scaling.what_if import ASSUMPTIONS, beside
from tests.builders.reports import report_of
from tests.builders.runs import LAPTOP_ENVIRONMENT, build_run
from tests.builders.scaling_runs import Cluster, sweep
from tests.unit.plugin.report.scaling.test_answer import NUMBERS


def page_of(*jobs):
    return html.unescape(page_html(beside(report_of(build_run(*jobs))).page))


def test_it_is_marked_as_a_prediction_and_says_what_it_rests_on():
    page = page_of(*sweep(Cluster(), NUMBERS))
    assert "Nothing on this page was measured unless stated." in page
    assert "<strong>The model holds.</strong>" in page
    assert "Predicted, not measured: efficiency 0.74" in page
    for text in ASSUMPTIONS:
        assert text in page
    for name, figure in {
        "A hop between ranks": "20.0 µs",
        "A link's bandwidth": "1.200 GB/s",
        "Gradients": "97.5 MiB",
        "Hidden behind computing": "120 ms",
        "Compute and data": "160.0 ms",
    }.items():
        assert re.search(rf"<dt>{name}</dt><dd>{figure}", page)
    check, predicted = page[page.index("Check<span") :].split("Predicted<span")
    assert re.findall(r'scope="row">(\d+)</th>', check) == ["8"]
    assert "0.0\N{NO-BREAK SPACE}%" in check
    rows = re.findall(r'scope="row">(\d+)</th>', predicted)
    assert rows == ["1", "2", "4", "8", "16", "32", "64", "128", "160"]
    titles = re.findall(r"<title>([^<]*)</title>", page)
    measured = list(dict.fromkeys(one for one in titles if one.startswith("measured, ")))
    assert len(measured) == len(NUMBERS)
    assert re.match(r"measured, 8 GPUs: 0\.84\d \[", measured[-1])


def test_a_wrong_model_says_so_and_shows_what_it_missed():
    page = page_of(*sweep(Cluster(congested_from=8), NUMBERS))
    assert "<strong>The model is wrong.</strong> Not known: the model does not hold on 8" in page
    assert "The output of a model that failed its check: not a prediction." in page
    rows = re.findall(r'scope="row">(\d+)</th>', page.split("The model<span")[1])
    assert rows == ["1", "2", "4", "8"]
    legend = re.findall(r"<text [^>]*>([^<]*)</text>", page)
    assert "model" in legend
    assert "predicted" not in legend
    assert re.search(r"\+2\d\d\s%", page)


def test_noise_and_single_jobs_and_processes_on_cpus_are_said():
    noisy = Cluster(hidden=0.02, spread=0.3)
    page = page_of(*sweep(noisy, NUMBERS))
    assert "<strong>Too noisy to tell.</strong>" in page
    assert "too noisy to tell</" in page
    assert "run each job at least 3 times" in page
    on_cpu = {"target": "c5.2xlarge", "environment": LAPTOP_ENVIRONMENT}
    page = page_of(*sweep(Cluster(backend="gloo"), NUMBERS, **on_cpu))
    assert "on 160 processes" in page
    assert "No figure comes from a GPU." in page
    assert "160 GPUs" not in page


def test_a_training_that_can_not_be_predicted_says_why_beside_one_that_can():
    unsplit = {"data": "files", "split": None}
    other = sweep(Cluster(), NUMBERS, training=unsplit, all_reduce=False, repeat=2)
    page = page_of(*sweep(Cluster(), NUMBERS), *other)
    assert "At one node count, no job reported how its steps split." in page
    assert "<strong>The model holds.</strong>" in page


def test_without_any_prediction_there_is_no_page():
    assert beside(report_of(build_run(*sweep(Cluster(), (2,))))) is None
    assert beside(report_of(build_run())) is None
