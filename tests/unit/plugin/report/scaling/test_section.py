"""The sections of nodes that measure together, and the page of predictions."""

import html
import re

from batchmark.analysis.comparison import compare
from batchmark.report.page import page_html
from batchmark.report.scaling.charts import training_charts
from batchmark.report.scaling.sections import published_table, study_tables, training_tables
from batchmark.report.scaling.what_if import ASSUMPTIONS, beside
from batchmark.report.scaling.words import remarks
from tests.builders.reports import cells, render_html, report_of, terminal
from tests.builders.runs import LAPTOP_ENVIRONMENT, PRICES, build_run
from tests.builders.scaling_runs import Cluster, scaling_job, sweep, unscaled_row
from tests.unit.plugin.report.scaling.test_answer import GPU, NUMBERS, report


def study(*jobs):
    (found,) = report_of(build_run(*jobs)).studies["scaling"]
    return found


def tables(found):
    (training,) = found.trainings
    return {table.title: table for table in training_tables(found, training)}


def test_each_figure_stands_below_its_heading():
    found = tables(study(*sweep(Cluster(), NUMBERS)))
    row = cells(found["Speed and price"])[3]
    assert (row["Nodes"], row["GPUs"], row["Batch per GPU"]) == ("8", "8", "64")
    assert row["Step"].startswith("189.4 ms [")
    assert row["Images/s"].startswith("2700 [")
    assert row["Per GPU"].startswith("338 [")
    assert row["An epoch"].startswith("$1.0")
    assert row["A million images"].startswith("$0.82")
    row = cells(found["Weak, 64 images a GPU"])[3]
    assert row["Speed-up"].startswith("6.7")
    assert row["Efficiency"].startswith("0.84")
    assert cells(found["Weak, 64 images a GPU"])[0]["Efficiency"] == "1"
    row = cells(found["Where a step's time goes"])[3]
    assert (row["Data"], row["Compute"]) == ("0 s (0.0 %)", "160 ms (84 %)")
    assert row["Communication"] == "29.4 ms (16 %)"
    assert (row["GPUs busy"], row["Loss, first and last"]) == ("97 %", "7, 6.1")


def test_the_network_and_the_files_have_tables():
    cluster = Cluster(latency=0.0)
    rows = [
        *cluster.all_reduces(2),
        cluster.reading(2, "cold", 1e8),
        cluster.reading(2, "warm", 1e9),
    ]
    reduce, reading = study_tables(study(scaling_job(GPU, 2, rows)))
    assert "by NCCL" in reduce.caption
    row = cells(reduce)[0]
    assert (row["Tensor"], row["GPUs"]) == ("1.0 MiB", "2")
    assert row["Bus bandwidth"].startswith("1.20")
    assert cells(reading)[0]["Read by all nodes"] == "200 MB/s"
    assert cells(reading)[1]["Read by all nodes"].startswith("2.0")


def test_what_others_published_stands_beside_ours_labelled_with_what_it_lacks():
    found = published_table(study(*sweep(Cluster(), NUMBERS)))
    ours, theirs, *_ = cells(found)
    assert (ours["Who"], ours["On"]) == ("this run: NVIDIA A10G", "8 GPUs")
    assert ours["Efficiency"].startswith("0.84")
    assert theirs == {
        "Who": "published by others: NVIDIA V100",
        "On": "160 GPUs",
        "Images/s": "about 100,000",
        "Per device": "625",
        "Efficiency": "not known",
    }
    for said in ("linear", "lacks", "the speed of one node", "58 %", "1,075"):
        assert said in found.caption
    assert published_table(study(scaling_job(GPU, 2, Cluster().all_reduces(2)))) is None


def test_charts_have_the_ideal_intervals_and_parts_and_one_number_of_nodes_has_none():
    (one,) = (found := study(*sweep(Cluster(), NUMBERS, strong=True))).trainings
    charts = training_charts(found, one)
    efficiency, speed, parts = (html.unescape(chart.svg) for chart in charts)
    for svg in (efficiency, speed):
        shown = set(re.findall(r"<text [^>]*>([^<]*)</text>", svg))
        assert {"weak, 64 images a GPU", "nodes", "1", "8"} <= shown
    titles = re.findall(r"<title>([^<]*)</title>", efficiency)
    assert any(re.match(r"weak, 64 images a GPU, 8 nodes: 0\.84\d \[", one) for one in titles)
    assert any(one.startswith("strong, 64 images in all, 8 nodes: 0.40") for one in titles)
    assert "8 nodes: communication 29.4 ms" in parts
    shown = set(re.findall(r"<text [^>]*>([^<]*)</text>", parts))
    assert {"data", "compute", "communication", "parts of a step"} <= shown
    found = study(*sweep(Cluster(), (2,)))
    (one,) = found.trainings
    assert training_charts(found, one) == []
    assert list(tables(found)) == ["Speed and price", "Where a step's time goes"]


def test_the_section_has_what_it_is_of_every_table_and_a_link_to_a_page_of_predictions():
    found = report(strong=True)
    page, text = html.unescape(render_html(found)), terminal(found)
    for title in tables(found.studies["scaling"][0]):
        assert title in page
        assert title in text
    assert "learning rate 0.4 for 256 images, momentum 0.9" in page
    assert "1.006 USD per hour for each node" in page
    for said in ("Weak scaling keeps the batch of each device", "Bus bandwidth is 2(n-1)/n"):
        assert said in page
    assert "Repeat 1 on 1 node: job" in page
    assert "Repeat 1 on 8 nodes: job" in page
    assert "scaling.html" not in page
    assert '<a href="scaling.html"' in render_html(found, beside={"what-if": "scaling.html"})
    assert 'href="javascript' not in render_html(found, beside={"what-if": "javascript:alert(1)"})


def test_what_the_dollars_are_for_is_said():
    def caption(data, hourly):
        run = build_run(scaling_job(GPU, 2, [Cluster().training(2, data=data)]))
        (one,) = compare(run, PRICES, file_system_usd_per_hour=hourly).studies["scaling"]
        return tables(one)["Speed and price"].caption

    assert caption("files", 2.5).endswith(
        "and the file system at $2.5 an hour; starting the nodes is not included."
    )
    assert caption("files", None).endswith("nor is the file system, whose price is not known.")
    assert caption("synthetic", 2.5).endswith("; starting the nodes is not included.")
    assert caption("synthetic", None).startswith("An epoch is 1,281,167 images. ")


def test_a_cold_pass_that_took_no_longer_than_a_warm_one_tells_nothing():
    def caption(cold):
        rows = [Cluster().reading(2, "cold", cold), Cluster().reading(2, "warm", 1e9)]
        (reading,) = study_tables(study(scaling_job(GPU, 2, rows)))
        return reading.caption

    assert caption(2e9).endswith("the files are too small to show a difference.")
    assert caption(1e8).endswith("what the file system does not have.")


def test_cpus_have_no_gpus_that_are_busy():
    on_cpu = sweep(
        Cluster(backend="gloo"), (1, 2), target="c5.2xlarge", environment=LAPTOP_ENVIRONMENT
    )
    parts = tables(study(*on_cpu))["Where a step's time goes"]
    assert "GPUs busy" not in parts.headings
    assert all(len(row) == len(parts.headings) for row in parts.rows)
    assert '<h2 id="prices"' not in render_html(report_of(build_run(*on_cpu)))


def test_a_reason_that_several_share_is_told_once_with_all_their_places():
    cluster = Cluster(spread=0.3)
    failed = [
        unscaled_row(2, "out of memory", batch=batch, image=224, data="synthetic")
        for batch in (64, 128)
    ]
    rows = [cluster.training(1, data=data) for data in ("synthetic", "files")]
    found = list(remarks(study(scaling_job(GPU, 1, rows), scaling_job(GPU, 2, failed))))
    (missing,) = [one for one in found if "out of memory" in one]
    assert "batch 64" in missing
    assert "batch 128" in missing
    (care,) = [one for one in found if one.startswith("Caution: ")]
    assert care.startswith(
        "Caution: 1 node, batch 64, synthetic images, bfloat16; 1 node, batch 64, images from "
        "files, bfloat16: wide spread, "
    )


def test_a_training_without_a_figure_has_no_section():
    failed = unscaled_row(2, "out of memory", batch=64, image=224, data="files")
    shown = terminal(report_of(build_run(scaling_job(GPU, 2, [Cluster().training(2), failed]))))
    assert "images from files, bfloat16, 1 GPU a node, on" not in shown
    assert "Code: not known yet" not in shown
    assert "failed: out of memory" in shown


def page_of(*jobs):
    return html.unescape(page_html(beside(report_of(build_run(*jobs))).page))


def test_the_page_of_predictions_is_marked_as_a_prediction_and_says_what_it_rests_on():
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


def test_a_page_of_a_wrong_model_says_so_and_shows_what_it_missed():
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


def test_what_can_not_be_predicted_says_why_beside_what_can_and_has_no_page_alone():
    unsplit = {"data": "files", "split": None}
    other = sweep(Cluster(), NUMBERS, training=unsplit, all_reduce=False, repeat=2)
    page = page_of(*sweep(Cluster(), NUMBERS), *other)
    assert "At one node count, no job reported how its steps split." in page
    assert "<strong>The model holds.</strong>" in page
    assert beside(report_of(build_run(*sweep(Cluster(), (2,))))) is None
    assert beside(report_of(build_run())) is None
