"""Result documents in files, as jobs leave them that are run by hand."""

from tests.builders.runs import build_job, build_row

REPEATS = 6


def stored(path, *rows, target="local", run_id="run", suite="blog", **fields):
    """The file with the document of a job of these rows; each file is another job's."""
    of_file = {"job_id": f"{path.parent.name}/{path.stem}"}
    document = build_job(target, rows, **of_file | fields).document
    path.parent.mkdir(exist_ok=True)
    path.write_text(document.model_copy(update={"run_id": run_id, "suite": suite}).to_json())
    return path


def samples_of(seconds, repeat=0):
    """A job's samples, which differ by up to half a percent from those of the others."""
    return [seconds * (1 + repeat / 1000 + sample / 10_000) for sample in range(20)]


def repeats(folder, seconds, *, size=1000, count=REPEATS, **fields):
    """A folder with the documents of jobs of one row."""
    for repeat in range(count):
        row = build_row(samples_of(seconds, repeat), parameters={"size": size})
        path = folder / f"{repeat}.json"
        stored(path, row, run_id=folder.name, repeat=repeat + 1, **fields)
    return folder
