"""Character language models: vocabulary, alignment, both perplexities, files of the user's."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from passnet.config import CharacterTask
from passnet.tasks.character_sentences import CharacterSentences
from passnet.tasks.character_stream import CharacterStream
from passnet.tasks.corpus import Vocabulary, load_corpus
from passnet.tasks.data import DataError
from passnet.tasks.task import Totals


def text_file(folder: Path, text: str) -> Path:
    path = folder / "text.txt"
    path.write_text(text, encoding="utf-8")
    return path


def sentences(path: Path | None = None, *, data_dir: Path | None = None, **options: object):
    """Penn Treebank or what `options` name, or a file of the user's, line by line."""
    own = {} if path is None else {"source": "file", "path": str(path)}
    return CharacterSentences(CharacterTask(**own, **options), data_dir=data_dir and str(data_dir))


def stream(path: Path | None = None, *, data_dir: Path | None = None, window=35, **options: object):
    """The same as a stream."""
    own = {"mode": "stream", "window": window}
    own |= {} if path is None else {"source": "file", "path": str(path)}
    return CharacterStream(CharacterTask(**own, **options), data_dir=data_dir and str(data_dir))


def test_vocabulary() -> None:
    vocabulary = Vocabulary.of("b a\nä")
    assert vocabulary.characters == " abä" and len(vocabulary) == 6
    assert vocabulary.encode("aäz\nb😀").tolist() == [3, 5, 1, 0, 4, 1]
    assert vocabulary.decode([3, 5, 1, 0, 4]) == "aä\ufffd\nb"
    assert vocabulary.encode("").tolist() == []


def test_ptb_lines_as_the_paper_reads_them(tiny_ptb: Path) -> None:
    task = sentences(longest=500, data_dir=tiny_ptb)
    assert task.vocabulary.characters == "".join(sorted(set("no it was n't <unk>N years olda bxy")))
    # The line of 501 characters is not trained on, but what it is written in is known.
    assert task.record()["splits"] == {
        "train": {"lines": 4, "targets": 20 + 12 + 4 + 501, "unknown": 0},
        "valid": {"lines": 2, "targets": 7 + 4, "unknown": 1},
        "test": {"lines": 3, "targets": 4 + 8 + 4, "unknown": 0},
    }
    batch = task.batch("test", 0, batch_size=3)
    assert batch.lengths.tolist() == [4, 8, 4]
    encode = task.vocabulary.encode
    assert batch.targets[:, 1].tolist() == encode("<unk> a\n").tolist()
    assert batch.inputs[:, 1].tolist() == encode("\n<unk> a").tolist()
    assert batch.targets[:, 0].tolist() == [*encode("old\n").tolist(), 0, 0, 0, 0]
    assert batch.inputs[:, 0].tolist() == [*encode("\nold").tolist(), 0, 0, 0, 0]
    assert batch.mask.t().tolist() == [[1] * 4 + [0] * 4, [1] * 8, [1] * 4 + [0] * 4]


def test_unk_as_one_symbol(tiny_ptb: Path) -> None:
    task = stream(unk="symbol", data_dir=tiny_ptb)
    assert "<" not in task.vocabulary.characters
    facts = task.record()["splits"]["test"]
    assert facts == {"lines": 3, "targets": 4 + 4 + 4, "unknown": 1}
    batch = task.batch("test", 0, batch_size=1)
    assert task.vocabulary.decode(batch.targets[:, 0].tolist()) == "old\n\ufffd a\na b\n"
    assert task.vocabulary.decode(batch.inputs[:, 0].tolist()) == "\nold\n\ufffd a\na b"


def test_long_lines_are_left_out_of_training_only(tmp_path: Path) -> None:
    lines = ["ab"] * 16 + ["abababab"] + ["ba", "abababab"] + ["aa"]
    task = sentences(text_file(tmp_path, "\n".join(lines)), longest=4)
    splits = task.record()["splits"]
    kept = sum(facts["lines"] for facts in splits.values())
    assert kept == 19 and splits["train"]["lines"] == 16
    with pytest.raises(DataError, match="raise `longest`"):
        sentences(tmp_path / "text.txt", longest=1)


def test_training_goes_through_the_file_in_order(tmp_path: Path) -> None:
    lines = [chr(97 + i) * (i + 1) for i in range(10)] + ["a"] * 30
    task = sentences(text_file(tmp_path, "\n".join(lines)))
    first = task.batch("train", 0, batch_size=4)
    assert first.lengths.tolist() == [5, 4, 3, 2]  # of a batch the longest first
    begins = [task.vocabulary.decode(column[:1]) for column in first.inputs.T[:, 1:]]
    assert begins == ["d", "c", "b", "a"]
    size = task.record()["splits"]["train"]["lines"]
    count = task.batch_count("train", batch_size=4)
    assert count == -(-size // 4)
    lengths = torch.cat([task.batch("train", i, batch_size=4).lengths for i in range(count)])
    assert len(lengths) == size
    again = task.batch("train", count, batch_size=4)
    assert torch.equal(again.inputs, task.batch("train", 0, batch_size=4).inputs)


def hand_made(task: CharacterSentences | CharacterStream, batch_size: int) -> dict[str, float]:
    """Scores when the right symbol is given 1/2, 1/4 or 1/8, by the sentence it is in."""
    totals = Totals()
    for batch in task.batches("test", batch_size=batch_size):
        if batch.groups is None:
            index = 0 if batch.inputs.shape[1] > 1 else int(totals.sums.get("sentences", 0))
            sentence = torch.arange(index, index + batch.inputs.shape[1]).expand_as(batch.targets)
        else:
            sentence = batch.groups
        right = 0.5 ** (sentence + 1).double()
        symbols = task.output_size
        others = ((1 - right) / (symbols - 1)).unsqueeze(-1).expand(*right.shape, symbols).clone()
        chances = others.scatter(-1, batch.targets.unsqueeze(-1), right.unsqueeze(-1))
        totals = totals + task.totals(chances.log(), batch)
    return task.finish(totals)


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize(("read", "options"), [(sentences, {}), (stream, {"window": 5})])
def test_micro_and_macro_perplexity_by_hand(
    tiny_ptb: Path, batch_size: int, read: Callable, options: dict
) -> None:
    """Test lines `old`, `<unk> a`, `a b` have 4, 8 and 4 targets: 1, 2 and 3 bits each."""
    scores = hand_made(read(data_dir=tiny_ptb, **options), batch_size)
    assert scores["bits_per_character_micro"] == pytest.approx((4 * 1 + 8 * 2 + 4 * 3) / 16)
    assert scores["perplexity_micro"] == pytest.approx(2**2)
    assert scores["perplexity_macro"] == pytest.approx(2 ** ((1 + 2 + 3) / 3))
    assert scores["cross_entropy_nats_micro"] == pytest.approx(2 * math.log(2))
    # 1/2 to a right symbol of many is always the largest share.
    assert scores["accuracy"] == 1


def test_micro_and_macro_differ_when_lengths_do(tmp_path: Path) -> None:
    text = "\n".join(["ab"] * 300 + ["a", "bbbbbbbbb" * 7])
    task = sentences(text_file(tmp_path, text))
    lines = task.record()["splits"]["test"]["lines"]
    totals = Totals()
    for batch in task.batches("test", batch_size=1):
        cost = 1.0 if batch.lengths.item() > 10 else 3.0
        right = torch.full(batch.targets.shape, math.exp(-cost))
        others = ((1 - right) / 3).unsqueeze(-1).expand(*right.shape, 4)
        chances = others.scatter(-1, batch.targets.unsqueeze(-1), right.unsqueeze(-1))
        totals = totals + task.totals(chances.log(), batch)
    scores = task.finish(totals)
    targets = task.record()["splits"]["test"]["targets"]
    assert scores["perplexity_micro"] == pytest.approx(
        math.exp((3 * (targets - 64) + 64) / targets)
    )
    assert scores["perplexity_macro"] == pytest.approx(math.exp((3 * (lines - 1) + 1) / lines))


def test_training_loss_averages_sentences_or_characters(tiny_ptb: Path) -> None:
    losses = {}
    for average in ("sentence", "character"):
        task = sentences(average=average, data_dir=tiny_ptb)
        batch = task.batch("train", 0, batch_size=3)
        # Every target of column 1 (12 of them) costs log V, those of the others nothing.
        outputs = 60.0 * torch.nn.functional.one_hot(batch.targets, task.output_size)
        outputs[:, 1] = 0
        losses[average] = task.loss(outputs, batch).item() / math.log(task.output_size)
    assert losses["sentence"] == pytest.approx(1 / 3)
    assert losses["character"] == pytest.approx(12 / (20 + 12 + 4))


def test_a_stream_is_the_text_in_lanes(tmp_path: Path) -> None:
    text = "\n".join(["abcdefg"] * 40)
    task = stream(text_file(tmp_path, text), window=6)
    corpus = load_corpus("file", path=tmp_path / "text.txt")
    whole = "\n".join(corpus.train) + "\n"
    assert task.record()["splits"]["train"]["targets"] == len(whole)
    lane = len(whole) // 3
    count = task.batch_count("train", batch_size=3)
    assert count == lane // 6
    batches = [task.batch("train", index, batch_size=3) for index in range(count + 1)]
    assert [batch.carries_state for batch in batches] == [False] + [True] * (count - 1) + [False]
    assert torch.equal(batches[0].inputs, batches[count].inputs)
    for row in range(3):
        read = [symbol for batch in batches[:count] for symbol in batch.targets[:, row].tolist()]
        assert task.vocabulary.decode(read) == whole[row * lane :][: count * 6]
        read = [symbol for batch in batches[:count] for symbol in batch.inputs[:, row].tolist()]
        before = whole[row * lane - 1] if row else "\n"
        assert task.vocabulary.decode(read) == (before + whole[row * lane :])[: count * 6]


@pytest.mark.parametrize("lanes", [1, 4, 7, 1000])
def test_a_stream_scores_every_target_once(tmp_path: Path, lanes: int) -> None:
    lines = ["abc", "", "b", "abcabc"] * 20
    task = stream(text_file(tmp_path, "\n".join(lines)), window=5)
    facts = task.record()["splits"]["test"]
    read, belongs, totals = [], [], Totals()
    for batch in task.batches("test", batch_size=lanes):
        mask = torch.ones_like(batch.targets) if batch.mask is None else batch.mask
        assert batch.denominator == max(mask.sum().item(), 1)
        read.append(torch.where(mask > 0, batch.targets, -1))
        belongs.append(torch.where(mask > 0, batch.groups, -1))
        shape = (*batch.targets.shape, task.output_size)
        totals = totals + task.totals(torch.zeros(shape), batch)
    in_order = torch.cat(read).t().flatten()
    kept = in_order[in_order >= 0].tolist()
    corpus = load_corpus("file", path=tmp_path / "text.txt")
    assert task.vocabulary.decode(kept) == "\n".join(corpus.test) + "\n"
    assert len(kept) == facts["targets"] == totals.sums["characters"].item()
    groups = torch.cat(belongs).t().flatten()
    sizes = torch.bincount(groups[groups >= 0]).tolist()
    assert sizes == [len(line) + 1 for line in corpus.test]


def test_chance_is_the_pair_model_by_hand(tmp_path: Path) -> None:
    text = "\n".join(["aab"] * 30)
    task = sentences(text_file(tmp_path, text))
    train = task.record()["splits"]["train"]["lines"]
    symbols = 4
    extra = 1 / symbols

    def cost(pair: int, first: int) -> float:
        return -math.log((pair + extra) / (first + 1))

    # Pairs of a line: end-a, a-a, a-b, b-end; `a` is followed by a and b equally often.
    once, half = cost(train, train), cost(train, 2 * train)
    expected = (once + half + half + once) / 4
    assert task.chance("test")["cross_entropy_nats_micro"] == pytest.approx(expected)
    assert task.chance("test")["perplexity_macro"] == pytest.approx(math.exp(expected))
    as_a_stream = stream(tmp_path / "text.txt", window=3)
    assert as_a_stream.chance("test") == task.chance("test")


def test_a_changed_text_is_noticed(tmp_path: Path) -> None:
    records = []
    for text in ("ab\n" * 30, "ab\n" * 30, "ab\n" * 29 + "ba"):
        path = text_file(tmp_path, text)
        records.append(stream(path, window=3).record())
    assert records[0] == records[1] and records[0]["text_sha256"] != records[2]["text_sha256"]


def test_unknown_characters_count(tmp_path: Path) -> None:
    text = "\n".join(["ab"] * 90 + ["aé"] * 10)
    task = sentences(text_file(tmp_path, text))
    facts = task.record()["splits"]["test"]
    assert facts["unknown"] == facts["lines"]
    assert task.batch("test", 0, batch_size=1).targets[:, 0].tolist() == [2, 1, 0]


def test_the_embedded_text_needs_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PASSNET_DATA", raising=False)
    for task in (sentences(source="embedded"), stream(source="embedded")):
        facts = task.record()["splits"]
        assert facts["train"]["targets"] > 15_000 and facts["test"]["targets"] > 1_500
        assert facts["valid"]["unknown"] == facts["test"]["unknown"] == 0
        assert 30 < task.input_size < 60
    with pytest.raises(DataError, match="passnet data fetch ptb"):
        stream()


def test_a_text_without_line_ends(tmp_path: Path) -> None:
    path = text_file(tmp_path, "abcdefghij" * 10)
    facts = stream(path, window=5).record()["splits"]
    assert [facts[s]["targets"] for s in ("train", "valid", "test")] == [81, 11, 11]
    with pytest.raises(DataError, match="as a stream"):
        sentences(path, longest=50)


def test_line_ends_of_other_systems(tmp_path: Path) -> None:
    (tmp_path / "dos.txt").write_bytes("\ufeffab\r\nba\r\n".encode() * 1 + b"ab\r\n" * 20)
    corpus = load_corpus("file", path=tmp_path / "dos.txt")
    assert corpus.train[:2] == ("ab", "ba") and not any("\r" in line for line in corpus.train)


def test_many_symbols(tmp_path: Path) -> None:
    text = "\n".join(chr(0x4E00 + i) for i in range(600)) + "\n" + "\n".join(["\u4e00"] * 300)
    task = sentences(text_file(tmp_path, text))
    batch = task.batch("train", 0, batch_size=600)
    assert batch.targets[0].tolist() == list(range(2, 602))


def test_bad_texts_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read the text .*: No such file"):
        stream(tmp_path / "none.txt")
    (tmp_path / "latin").write_bytes(b"caf\xe9 " * 100)
    with pytest.raises(DataError, match=r"not UTF-8 text .byte 3 is 0xe9"):
        stream(tmp_path / "latin")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(DataError, match="too short"):
        stream(tmp_path / "empty")
    with pytest.raises(ValueError, match="needs path="):
        load_corpus("file")
    with pytest.raises(ValueError, match="'embedded', 'ptb' or 'file'"):
        load_corpus("web")


def test_a_diverged_model_has_an_infinite_perplexity(tiny_ptb: Path) -> None:
    task = sentences(data_dir=tiny_ptb)
    batch = task.batch("test", 0, batch_size=3)
    outputs = -2000.0 * torch.nn.functional.one_hot(batch.targets, task.output_size)
    assert task.finish(task.totals(outputs, batch))["perplexity_micro"] == math.inf
