"""What a run says of nodes that measure together: first screen, list of runs, terminal."""

import re

import pytest

from batchmark.report.answer import first_screen, summarize
from batchmark.report.scaling.sections import study_tables
from batchmark_job.result.scaling_options import IMAGES_OF_RATE
from tests.builders.reports import answers, render_html, report_of, terminal
from tests.builders.runs import (
    GPU_ENVIRONMENT,
    LAPTOP_ENVIRONMENT,
    ON_LAPTOP,
    SIMULATED,
    build_job,
    build_row,
    build_run,
)
from tests.builders.scaling_runs import (
    SETTINGS,
    Cluster,
    otherwise,
    scaling_job,
    sweep,
    unscaled_row,
)

GPU, CPU = "g5.xlarge", "c5.2xlarge"
NUMBERS = (1, 2, 4, 8)


def on_loopback(row):
    return otherwise(row, *({"host": f"127.0.1.{node.index + 1}"} for node in row.scaling.nodes))


def report(cluster=None, numbers=NUMBERS, **fields):
    return report_of(build_run(*sweep(cluster or Cluster(), numbers, **fields)))


def answer(found):
    (one,) = answers(found)
    return one


def lines(found):
    return {line.question: line for line in first_screen(found).lines}


def test_the_first_screen_says_how_far_it_scales_with_intervals_and_the_limit():
    found = report()
    one = answer(found)
    assert one.verdict == "Well to about 4 nodes"
    assert re.match(
        r"Efficiency 0\.95\d [^ ]+ 0\.96\d\] on 4 nodes and 0\.84\d \[0\.8\d+, 0\.8\d+\] on 8 "
        r"nodes, relative to 1 node, with 1 job per point \(resnet50_data_parallel on g5\.xlarge, "
        r"NVIDIA A10G\)\. On 8 nodes, exchanging gradients \(including waiting for the slowest "
        r"rank\) accounts for all of the lost time\.$",
        one.sentence,
    )
    assert one.cautions == [
        "Intervals don't cover differences between jobs: to include them, run each job "
        "at least 3 times."
    ]
    page, text = render_html(found), terminal(found)
    for shown in (page, text):
        assert shown.count("How far does the training scale?") == 1
        assert "Does the GPU pay off?" not in shown
        assert "Nothing to compare" not in shown
    assert "<title>Batchmark: scaling: g5.xlarge," in page
    assert page.index("Well to about 4 nodes") < page.index("What did it cost?")


@pytest.mark.parametrize(
    ("fields", "verdict", "said"),
    [
        ({"hidden": 1.0}, "Well to about 8 nodes or more", "on 8 nodes, relative to 1 node"),
        ({"hidden": 0.05}, "Not well", "on 2 nodes and 0.6"),
        ({"hidden": 0.0673, "spread": 0.3}, "Not known", ": the interval includes 0.9 ("),
    ],
)
def test_each_verdict_has_its_figures(fields, verdict, said):
    one = answer(report(Cluster(**fields), numbers=NUMBERS if "spread" not in fields else (1, 2)))
    assert one.verdict == verdict
    assert said in one.sentence


def test_what_an_epoch_costs_and_what_more_would_do_are_lines_of_their_own():
    found = lines(report())
    cost, more = found["What does an epoch cost?"], found["What if there were more nodes?"]
    assert re.match(
        r"\$0\.89\d \[.*\] on 1 node, \$1\.0\d+ \[.*\] on 8 nodes, for 1,281,167 images, "
        r"batch 64\.$",
        cost.answer,
    )
    assert more.section == "what-if"
    assert re.match(
        r"Predicted, not measured: efficiency 0\.74\d \[.*\] on 160 GPUs, 20 times as many as were "
        r"measured; the model holds on 8 nodes \(0\.84\d predicted, 0\.84\d measured\), 2 times as "
        r"many as it was fitted to\.$",
        more.answer,
    )


def test_nothing_is_predicted_by_a_wrong_model_or_of_what_was_measured():
    def more(cluster, numbers=NUMBERS):
        return lines(report(cluster, numbers))["What if there were more nodes?"].answer

    wrong = more(Cluster(congested_from=8))
    assert wrong.startswith("Not known: the model does not hold on 8 nodes")
    assert "160" not in wrong
    fast = Cluster(devices=8, per_byte=1 / 1.2e10, hidden=0.01)
    measured = more(fast, (1, 2, 4, 8, 16, 20))
    assert measured.startswith("160 GPUs were measured, with an efficiency of 0.95")
    assert "not measured" not in measured
    bound = more(Cluster(per_byte=1 / 3e9))
    told = r"efficiency at least 0\.9.*the model holds on 8 nodes.*at least 0\.9"
    assert re.match(rf"Predicted, not measured: {told}", bound)
    assert "Not known" not in bound


def test_missing_nodes_waiting_and_poor_efficiency_are_cautions_of_which_repeats_are_sure():
    cautions = answer(report(Cluster(hidden=0.0, data=0.04), numbers=(2, 8))).cautions
    assert cautions[0].startswith(
        "A single node was not measured: efficiencies are relative to 2 nodes"
    )
    assert any(
        re.match(r"On 2 nodes, a step already spends 1\d % of its time waiting", one)
        for one in cautions
    )
    poor = Cluster(hidden=0.05)
    (told,) = [one for one in answer(report(poor)).cautions if "below 0.8" in one]
    assert told == "From 4 nodes upward, the efficiency is below 0.8."
    jobs = [job for n in (1, 2, 3) for job in sweep(poor, (1, 2, 4), repeat=n)]
    one = answer(report_of(build_run(*jobs)))
    assert "a point" not in one.sentence
    assert one.cautions == ["From 4 nodes upward, the efficiency is clearly below 0.8."]


def test_what_is_missing_is_named_on_the_first_screen_and_explained_below():
    failed = unscaled_row(4, "node 3 fell silent", batch=64, image=224, data="synthetic")
    found = report_of(build_run(*sweep(Cluster(), (1, 2)), scaling_job(GPU, 4, [failed])))
    assert any(
        one.startswith("Not measured: resnet50_data_parallel nodes 4")
        for one in answer(found).cautions
    )
    for shown in (render_html(found), terminal(found)):
        assert "failed: node 3 fell silent" in shown


def test_nothing_that_trains_is_not_known():
    found = report_of(build_run(scaling_job(GPU, 2, Cluster().all_reduces(2))))
    one = answer(found)
    assert one.verdict == "Not known"
    assert (
        one.sentence
        == "g5.xlarge, NVIDIA A10G: it has no training row. Fix that, then run it again."
    )
    other = GPU_ENVIRONMENT.model_copy(update={"gpu_model": "NVIDIA L4"})
    jobs = [*sweep(Cluster(), (1,)), *sweep(Cluster(), (2,), environment=other)]
    refused = report_of(build_run(*jobs))
    assert "different environments" in answer(refused).sentence
    assert "Not judged: " in render_html(refused)
    assert "Not judged: " in terminal(refused)


@pytest.mark.parametrize(
    ("target", "changes", "whose"),
    [
        (CPU, ON_LAPTOP, "c5.2xlarge: its devices were processes on CPUs, which communicate "),
        (GPU, ON_LAPTOP, "g5.xlarge (ran on the CPU): its devices were processes on CPUs, which "),
        (GPU, SIMULATED, "g5.xlarge: its GPUs were simulated."),
    ],
)
def test_what_is_no_gpus_figure_says_so_wherever_it_is_shown(target, changes, whose):
    on_cpu = changes is ON_LAPTOP
    cluster = Cluster(backend="gloo" if on_cpu else "nccl")
    found = report(cluster, (1, 2), target=target, **changes)
    (said,) = [caution for caution in answer(found).cautions if caution.startswith(whose)]
    assert said.endswith("GPU.")
    assert ("which communicate through gloo." in said) == on_cpu
    for shown in (render_html(found, drawn=True).replace("&#39;", "'"), terminal(found)):
        assert said in shown
        if on_cpu:
            assert "1 process a node" in shown
            assert "1 GPU a node" not in shown
            assert "2 processes" in shown
            assert not re.search(r"on \d+ GPUs", shown.replace("8 to 160 GPUs", ""))


def test_nodes_of_one_machine_say_nothing_of_a_cluster():
    cluster = Cluster(backend="gloo")
    jobs = [
        scaling_job(CPU, n, [on_loopback(cluster.training(n))], environment=LAPTOP_ENVIRONMENT)
        for n in (1, 2)
    ]
    found = report_of(build_run(*jobs))
    (said,) = [one for one in answer(found).cautions if "on one machine" in one]
    assert said.endswith("The efficiencies are not those of a cluster.")
    apart = report(cluster, (1, 2), target=CPU, environment=LAPTOP_ENVIRONMENT)
    assert any(
        one.endswith("The efficiencies are not those of EC2.") for one in answer(apart).cautions
    )


def test_several_trainings_are_told_by_what_sets_them_apart_and_cautions_once():
    cluster = Cluster()
    jobs = [
        scaling_job(GPU, n, [cluster.training(n), cluster.training(n, data="files")])
        for n in (1, 2, 4)
    ]
    found = report_of(build_run(*jobs))
    first, second = answers(found)
    assert first.cautions == []  # all are told after the last answer
    assert len(second.cautions) == 1
    assert first.sentence.split("(")[1].startswith("synthetic images). On 4 nodes")
    cost = lines(found)["What does an epoch cost?"].answer
    assert cost.startswith("Synthetic images: $")
    assert " Images from files: $" in cost


def test_what_is_known_comes_first_and_gives_the_verdict():
    cluster = Cluster(hidden=0.05)
    jobs = [
        scaling_job(GPU, 1, [cluster.training(1, data="files")]),
        scaling_job(GPU, 2, [cluster.training(2), cluster.training(2, data="files")]),
    ]
    found = report_of(build_run(*jobs))
    first, second = answers(found)
    assert (first.verdict, second.verdict) == ("Not well", "Not known")
    assert second.cautions[0].startswith("Images from files: Intervals don't cover")
    assert second.sentence == (
        "It was measured on 2 nodes only; judging how it scales requires two different node counts "
        "(synthetic images). More repeats at two or more node counts would settle this."
    )
    summary = summarize(found)
    assert (summary.verdict, summary.gpus) == ("Not well", (GPU,))


def test_variants_of_a_study_have_a_table_and_no_answer_of_their_own():
    cluster, most = Cluster(hidden=0.05), 4
    settings = SETTINGS.model_copy(update={"learning_rate": 0.2 * most * 64 / 256})
    variant = cluster.training(most, own={"learning_rate": 0.2}, settings=settings)
    jobs = [*sweep(cluster, (1, 2, most)), scaling_job(GPU, most, [variant], job_id="variant#0")]
    found = report_of(build_run(*jobs))
    assert answer(found).verdict == "Not well"
    assert summarize(found).verdict == "Not well"
    assert "learning rate" not in lines(found)["What does an epoch cost?"].answer
    settings_table = next(study_tables(found.studies["scaling"][0]))
    assert [row[0].value for row in settings_table.rows] == ["the run's own", "learning rate 0.2"]
    for shown in (render_html(found), terminal(found)):
        assert "learning rate 0.2" in shown
    page = render_html(found)
    assert page.count("<h2") == render_html(report(cluster, (1, 2, most))).count("<h2")


def test_a_rate_is_shown_as_the_run_was_given_it():
    for nodes, batch in ((1, 64), (4, 64), (4, 16)):
        rate = 0.1 * nodes * batch / IMAGES_OF_RATE
        settings = SETTINGS.model_copy(update={"learning_rate": rate})
        row = Cluster().training(nodes, batch, settings=settings)
        page = render_html(report_of(build_run(scaling_job(GPU, nodes, [row]))))
        assert "learning rate 0.1 for 256 images" in page


def test_strong_scaling_beside_weak_has_a_line_and_two_batches_do_not_hide_each_other():
    found = lines(report(strong=True))["How much faster is a step?"]
    assert re.match(
        r"3\.\d+\u00d7 \[.*\] on 8 nodes, relative to 1 node, with 64 images in all\.$",
        found.answer,
    )
    both = scaling_job(GPU, 2, [Cluster().training(2, 64), Cluster().training(2, 32)])
    cost = lines(report_of(build_run(both)))["What does an epoch cost?"].answer
    assert "on 2 nodes, batch 32, $" in cost
    assert "on 2 nodes, batch 64, for" in cost


def test_why_nothing_is_predicted_is_said_once():
    jobs = []
    for nodes in (1, 2, 4):
        cluster = Cluster(compute=0.16 * nodes)
        rows = [cluster.training(nodes), cluster.training(nodes, data="files")]
        rows += cluster.all_reduces(nodes) if nodes > 1 else []
        jobs.append(scaling_job(GPU, nodes, rows))
    more = lines(report_of(build_run(*jobs)))["What if there were more nodes?"].answer
    assert more.startswith("Not known: compute and data take 160 ms per step on 1 and ")
    assert more.count("compute and data") == 1


def test_the_worst_number_of_nodes_is_shown_wherever_it_is():
    steps = {1: 0.16, 2: 0.161, 4: 0.25, 8: 0.162}
    jobs = [
        scaling_job(GPU, nodes, [Cluster(compute=seconds, hidden=1.0).training(nodes)])
        for nodes, seconds in steps.items()
    ]
    one = answer(report_of(build_run(*jobs)))
    assert one.verdict == "Well to about 2 nodes"
    assert re.search(r" on 2 nodes and 0\.6\d+ \[.*\] on 4 nodes, relative to 1 node", one.sentence)
    assert "On 4 nodes, slower computing accounts for all of the lost time." in one.sentence


def test_shared_cores_stragglers_and_a_slow_base_are_named():
    def sentence(*jobs):
        return answer(report_of(build_run(*jobs)))

    slow = [
        scaling_job(CPU, nodes, [on_loopback(Cluster(compute=0.16 * nodes).training(nodes))])
        for nodes in (1, 2)
    ]
    assert sentence(*slow).sentence.endswith("of the lost time: the nodes share cores.")
    stragglers = sentence(*sweep(Cluster(hidden=-0.02), NUMBERS)).sentence
    assert "more than the all-reduce by itself, as stragglers cause." in stragglers
    jobs = [*sweep(Cluster(compute=0.32), (1,)), *sweep(Cluster(), (2,))]
    assert any("1 node may be too slow" in one for one in sentence(*jobs).cautions)


def test_outside_ec2_there_are_no_dollars_and_no_prices():
    text = terminal(report(environment=LAPTOP_ENVIRONMENT))
    assert "No cost in dollars: the jobs ran on a machine outside EC2." in text
    assert "An epoch" not in text
    assert "Prices:" not in text
    assert "$" not in text


def test_beside_a_pair_both_questions_are_answered():
    ordinary = [
        build_job(target, [build_row((level,) * 8)]) for target, level in ((GPU, 0.5), (CPU, 1.0))
    ]
    found = report_of(build_run(*ordinary, *sweep(Cluster(), NUMBERS)))
    assert [story.anchor for story in first_screen(found).stories] == ["scaling", "answer"]
    assert answers(found)[0].verdict == "Well to about 4 nodes"
    page = render_html(found)
    assert page.index("How far does the training scale?") < page.index("Does the GPU pay off?")
    assert "resnet50_data_parallel" not in page[page.index('id="pair-1"') : page.index("Prices")]
