"""METEOR's alignment of two captions: all possible matches, then a beam search over the reference's positions.

"First" is the candidate, "second" the reference, as in the original, whose search has quirks that decide ties; they are
kept on purpose and marked (quirk). All functions that call each other compiled live in this file, because numba's cache
notices a change in a function's own file only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from captrial.kernels import kernel
from captrial.metrics.meteor.matching import Captions, Ints, Lexicon, Matchable, Phrases

Longs = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Long = int | np.int64

STATISTICS = 23  # counts of an alignment, see `captrial.metrics.meteor.meteor`
BEAM = 40
_EXACT, _STEM, _SYNONYM, _PARAPHRASE = range(4)
# A match is a row: its module, where it starts and how long it is in the second caption, the same in the first, and how
# many words it counts in the search: (quirk) outside the exact module half of either side's, rounded down.
_MODULE, _AT, _LENGTH, _FIRST_AT, _FIRST_LENGTH, _WORDS, _FIELDS = range(7)


# The search keeps its state in plain arrays: passing a tuple of arrays, or taking a row of one, costs reference counts.
# A path: minus its matched words times 2^32 plus its chunks (smaller is better), its distance, where its last match
# ended in the first caption (-1 after a gap) and in the second, the row of the trace with its last match (-1: none),
# and in the remaining columns, 64 bits each, which words of the first caption it has taken.
_SCORE, _DISTANCE, _LAST, _READY, _TRACE, _USED = range(6)
# A queued extension: score, distance and last as above, its parent path, and which of the matches it takes (-1: none).
_PARENT, _MATCH = 3, 4


def align_pairs(matchable: Matchable, first: Ints, second: Ints) -> Ints:
    """Align captions `first[k]` (the candidate) and `second[k]` (the reference); statistics (pairs, 23)."""
    statistics = np.zeros((len(first), STATISTICS), np.int32)
    if len(first):
        longest = np.diff(matchable.captions.start).max()
        chosen = np.empty((longest, _FIELDS), np.int32)
        heads = np.full(len(matchable.phrases.target_start) - 1, -1, np.int32)
        _align_pairs(*matchable, first, second, heads, chosen, statistics)
    return statistics


@kernel()
def _align_pairs(
    captions: Captions,
    lexicon: Lexicon,
    phrases: Phrases,
    first: Ints,
    second: Ints,
    heads: Ints,
    chosen: Ints,
    statistics: Ints,
) -> None:
    for k in range(len(first)):
        a, b = first[k], second[k]
        words_1 = captions.words[captions.start[a] : captions.start[a + 1]]
        words_2 = captions.words[captions.start[b] : captions.start[b + 1]]
        # (quirk) equal captions are matched by exact words alone
        exact_only = _same(words_1, words_2, lexicon.exact)
        related = _relate(words_1, words_2, lexicon, exact_only)
        paraphrases = _paraphrases(phrases, a, b, heads, exact_only)
        chain = _chain(paraphrases, len(words_2))
        matches = np.empty((3 * len(words_1) + len(paraphrases), _FIELDS), np.int32)
        if _fix(related, paraphrases, chain, matches, chosen):
            _search(related, paraphrases, chain, matches, chosen)
        _count(words_1, words_2, lexicon.function, chosen, statistics[k])


@kernel()
def _same(words_1: Ints, words_2: Ints, exact: Ints) -> bool:
    if len(words_1) != len(words_2):
        return False
    equal = 0
    for k in range(len(words_1)):
        equal += exact[words_1[k]] == exact[words_2[k]]
    return equal == len(words_1)


@kernel()
def _paraphrases(phrases: Phrases, a: int, b: int, heads: Ints, exact_only: bool) -> Ints:
    """All paraphrase matches: second to first, then first to second, so a pair can be there twice (quirk)."""
    rows = np.empty((0, _FIELDS), np.int32)
    if exact_only:
        return rows
    forth = _meet(phrases, b, a, heads, False, rows, 0)
    back = _meet(phrases, a, b, heads, True, rows, 0)
    if forth + back:
        rows = np.empty((forth + back, _FIELDS), np.int32)
        _meet(phrases, b, a, heads, False, rows, 0)
        _meet(phrases, a, b, heads, True, rows, forth)
    return rows


@kernel()
def _meet(phrases: Phrases, source: int, target: int, heads: Ints, source_is_first: bool, rows: Ints, row: int) -> int:
    """Count, and given room write from `row` on, where phrases of `source` have a paraphrase in `target`.

    `heads` is scratch for every phrase, all -1 before and after.
    """
    begin, end = phrases.start[target], phrases.start[target + 1]
    following = np.empty(end - begin, np.int32)
    for k in range(end - begin - 1, -1, -1):  # chain the finds of each phrase by position
        following[k] = heads[phrases.phrase[begin + k]]
        heads[phrases.phrase[begin + k]] = k
    found = 0
    for s in range(phrases.start[source], phrases.start[source + 1]):
        phrase = phrases.phrase[s]
        for t in range(phrases.target_start[phrase], phrases.target_start[phrase + 1]):
            k = heads[phrases.targets[t]]
            while k >= 0:
                if len(rows):
                    one, two = (s, begin + k) if source_is_first else (begin + k, s)
                    rows[row + found, _MODULE] = _PARAPHRASE
                    rows[row + found, _AT] = phrases.position[two]
                    rows[row + found, _LENGTH] = phrases.length[two]
                    rows[row + found, _FIRST_AT] = phrases.position[one]
                    rows[row + found, _FIRST_LENGTH] = phrases.length[one]
                    rows[row + found, _WORDS] = phrases.length[one] // 2 + phrases.length[two] // 2
                found += 1
                k = following[k]
    for k in range(begin, end):
        heads[phrases.phrase[k]] = -1
    return found


@kernel()
def _chain(rows: Ints, positions: int) -> Ints:
    chain = np.full(positions + len(rows), -1, np.int32)
    for r in range(len(rows) - 1, -1, -1):
        chain[positions + r] = chain[rows[r, _AT]]
        chain[rows[r, _AT]] = r
    return chain


@kernel()
def _list_matches(related: Bytes, paraphrases: Ints, chain: Ints, at: int, matches: Ints) -> int:
    """Write the matches that start at a position of the second caption to `matches`, module by module; how many."""
    positions, words = related.shape
    modules = 0
    for k in range(words):
        modules |= related[at, k]
    count = 0
    for module in range(_PARAPHRASE):
        if modules >> module & 1:
            for k in range(words):
                if related[at, k] >> module & 1:
                    matches[count, _MODULE], matches[count, _AT], matches[count, _LENGTH] = module, at, 1
                    matches[count, _FIRST_AT], matches[count, _FIRST_LENGTH] = k, 1
                    matches[count, _WORDS] = 2 if module == _EXACT else 0
                    count += 1
    r = chain[at]
    while r >= 0:
        for field in range(_FIELDS):
            matches[count, field] = paraphrases[r, field]
        count += 1
        r = chain[positions + r]
    return count


@kernel()
def _relate(words_1: Ints, words_2: Ints, lexicon: Lexicon, exact_only: bool) -> Bytes:
    """By which modules each word of the second caption matches each of the first, one bit a module; (second, first)."""
    related = np.empty((len(words_2), len(words_1)), np.uint8)
    for j in range(len(words_2)):
        word = words_2[j]
        exact, stem, signature = lexicon.exact[word], lexicon.stem[word], lexicon.signature[word]
        for i in range(len(words_1)):
            other = words_1[i]
            relation = 0
            if lexicon.exact[other] == exact:
                relation = 1 << _EXACT
            elif not exact_only:
                if lexicon.stem[other] == stem:
                    relation = 1 << _STEM
                if lexicon.signature[other] & signature and _share(lexicon.synsets, lexicon.synset_start, other, word):
                    relation |= 1 << _SYNONYM
            related[j, i] = relation
    return related


@kernel()
def _share(sets: Ints, start: Ints, a: int, b: int) -> bool:
    """Do two sorted sets have a member in common?"""
    i, j = start[a], start[b]
    while i < start[a + 1] and j < start[b + 1]:
        if sets[i] == sets[j]:
            return True
        if sets[i] < sets[j]:
            i += 1
        else:
            j += 1
    return False


@kernel()
def _fix(related: Bytes, paraphrases: Ints, chain: Ints, matches: Ints, chosen: Ints) -> bool:
    """Choose the matches that nothing competes with; `chosen[j]` has length 0 where there is none. Is any left open?"""
    cover_1, cover_2 = np.zeros(related.shape[1], np.int32), np.zeros(related.shape[0], np.int32)
    is_open = False
    for at in range(len(related)):
        count = _list_matches(related, paraphrases, chain, at, matches)
        for m in range(count):
            for k in range(matches[m, _FIRST_AT], matches[m, _FIRST_AT] + matches[m, _FIRST_LENGTH]):
                cover_1[k] += 1
            for k in range(at, at + matches[m, _LENGTH]):
                cover_2[k] += 1
        for field in range(_FIELDS):
            chosen[at, field] = matches[0, field] if count == 1 else 0
        is_open |= count > 1
    for at in range(len(related)):
        covered = 0
        for k in range(chosen[at, _FIRST_AT], chosen[at, _FIRST_AT] + chosen[at, _FIRST_LENGTH]):
            covered = max(covered, cover_1[k])
        for k in range(at, at + chosen[at, _LENGTH]):
            covered = max(covered, cover_2[k])
        if covered > 1:
            chosen[at, _LENGTH] = 0
            is_open = True
    return is_open


@kernel()
def _search(related: Bytes, paraphrases: Ints, chain: Ints, matches: Ints, chosen: Ints) -> None:
    """Complete `chosen` by the best path from left to right over the second caption."""
    length, words = related.shape
    paths = np.zeros((2, BEAM, _USED + (words + 63) // 64), np.int64)  # now and next, by turns
    paths[0, 0, _LAST] = paths[0, 0, _TRACE] = -1
    queue, order = np.empty((BEAM, 5), np.int64), np.empty(BEAM, np.int64)
    trace = np.empty((BEAM * length, _FIELDS + 1), np.int32)
    final = np.full(words + 1, -1, np.int32)  # the last match in the list that starts at a word of the first caption
    now, alive, traced = 0, 1, 0
    for at in range(length):
        fixed = chosen[at, _LENGTH] > 0
        if fixed:
            for field in range(_FIELDS):
                matches[0, field] = chosen[at, field]
        count = 1 if fixed else _list_matches(related, paraphrases, chain, at, matches)
        most = 0
        for m in range(count):
            final[matches[m, _FIRST_AT]] = m
            most = max(most, matches[m, _WORDS])
        queued = 0
        for p in range(alive):
            queued = _extend(paths, now, p, at, matches, count, fixed, final, most, queue, order, queued)
        for m in range(count):
            final[matches[m, _FIRST_AT]] = -1
        traced = _advance(paths, now, matches, queue, order, queued, trace, traced)
        now, alive = 1 - now, queued
    for p in range(alive):
        paths[now, p, _SCORE] += paths[now, p, _LAST] >= 0  # the last chunk is closed
    best = 0
    for p in range(1, alive):
        score, distance = paths[now, best, _SCORE], paths[now, best, _DISTANCE]
        if _better(paths[now, p, _SCORE], paths[now, p, _DISTANCE], score, distance):
            best = p
    for at in range(length):
        chosen[at, _LENGTH] = 0
    row = paths[now, best, _TRACE]
    while row >= 0:
        for field in range(_FIELDS):
            chosen[trace[row, _AT], field] = trace[row, field]
        row = trace[row, _FIELDS]


@kernel()
def _better(score: Long, distance: Long, than_score: Long, than_distance: Long) -> bool:
    return bool(score < than_score or (score == than_score and distance < than_distance))


@kernel()
def _extend(
    paths: Longs,
    now: int,
    p: int,
    at: int,
    matches: Ints,
    count: int,
    fixed: bool,
    final: Ints,
    most: int,
    queue: Longs,
    order: Longs,
    queued: int,
) -> int:
    """Queue every way in which path p can go on from a position; how many are queued now."""
    score, distance, last = paths[now, p, _SCORE], paths[now, p, _DISTANCE], paths[now, p, _LAST]
    none = np.int64(-1)
    if at < paths[now, p, _READY]:  # inside its last match
        return _enqueue(queue, order, queued, score, distance, last, p, none)
    for m in range(count):
        first = np.int64(matches[m, _FIRST_AT])
        end = first + matches[m, _FIRST_LENGTH]
        taken = np.int64(0)
        for k in range(first, end):
            taken |= paths[now, p, _USED + (k >> 6)] >> (k & 63) & 1
        if taken != 0:
            continue
        if queued == BEAM:  # go no further when the best that can still come is no better than the worst there is
            bound = score - (most << 32) + (last >= 0 and final[last] < m)
            if not _better(bound, distance, queue[order[BEAM - 1], _SCORE], queue[order[BEAM - 1], _DISTANCE]):
                return queued
        extended = score - (np.int64(matches[m, _WORDS]) << 32) + (last >= 0 and last != first)
        # (quirk) a fixed match counts its distance before, an open one after it is queued: the latter burdens not the
        # path that takes the match but those queued after it, the skipping one included. 32 bits, as in the original.
        further = np.int64(np.int32(distance + abs(at - first)))
        if fixed:
            return _enqueue(queue, order, queued, extended, further, end, p, m)
        queued = _enqueue(queue, order, queued, extended, distance, end, p, m)
        distance = further
    return _enqueue(queue, order, queued, score + (last >= 0), distance, none, p, none)


@kernel()
def _enqueue(
    queue: Longs,
    order: Longs,
    queued: int,
    score: Long,
    distance: Long,
    last: Long,
    parent: int,
    match: Long,
) -> int:
    """Insert an extension behind those that are better or as good; when the beam is full, the worst falls out."""
    slot = rank = queued
    if queued == BEAM:
        rank = BEAM - 1
        slot = order[rank]
        if not _better(score, distance, queue[slot, _SCORE], queue[slot, _DISTANCE]):
            return queued
    while rank > 0:
        other = order[rank - 1]
        if not _better(score, distance, queue[other, _SCORE], queue[other, _DISTANCE]):
            break
        order[rank] = other
        rank -= 1
    order[rank] = slot
    queue[slot, _SCORE], queue[slot, _DISTANCE], queue[slot, _LAST] = score, distance, last
    queue[slot, _PARENT], queue[slot, _MATCH] = parent, match
    return min(queued + 1, BEAM)


@kernel()
def _advance(
    paths: Longs, now: int, matches: Ints, queue: Longs, order: Longs, queued: int, trace: Ints, traced: int
) -> int:
    """Turn the queued extensions into the next paths; how many rows of the trace are in use now."""
    for rank in range(queued):
        slot = order[rank]
        parent, m = queue[slot, _PARENT], queue[slot, _MATCH]
        for column in range(paths.shape[2]):
            paths[1 - now, rank, column] = queue[slot, column] if column < _READY else paths[now, parent, column]
        if m >= 0:
            for k in range(matches[m, _FIRST_AT], matches[m, _FIRST_AT] + matches[m, _FIRST_LENGTH]):
                paths[1 - now, rank, _USED + (k >> 6)] |= np.int64(1) << (k & 63)
            for field in range(_FIELDS):
                trace[traced, field] = matches[m, field]
            trace[traced, _FIELDS] = paths[now, parent, _TRACE]
            paths[1 - now, rank, _READY] = matches[m, _AT] + matches[m, _LENGTH]
            paths[1 - now, rank, _TRACE] = traced
            traced += 1
    return traced


@kernel()
def _count(words_1: Ints, words_2: Ints, function: NDArray[np.bool_], chosen: Ints, row: Ints) -> None:
    """The statistics of an alignment, in the original's order."""
    row[0], row[1] = len(words_1), len(words_2)
    for word in words_1:
        row[2] += function[word]
    for word in words_2:
        row[3] += function[word]
    end_1, end_2 = -1, -1
    for at in range(len(words_2)):
        if chosen[at, _LENGTH] == 0:
            continue
        cell, first = 4 + 4 * chosen[at, _MODULE], chosen[at, _FIRST_AT]
        row[20] += end_1 != first or end_2 != at
        end_1, end_2 = first + chosen[at, _FIRST_LENGTH], at + chosen[at, _LENGTH]
        for k in range(first, end_1):
            row[cell + 2 * function[words_1[k]]] += 1
        for k in range(at, end_2):
            row[cell + 1 + 2 * function[words_2[k]]] += 1
        row[21] += end_1 - first
        row[22] += end_2 - at
