"""Mutation testing: whether the unit tests find small faults put into a sample of functions.

Why a tool of our own: mutmut 3 takes only `.`, `src` and `source` as source folders, so it does not
find plugins/ and job_container/, and cosmic-ray starts Python anew for each mutant, which costs
more than most tests. Here a mutant costs less than a second besides its tests.
"""
