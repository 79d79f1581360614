"""The feed: each epoch whole, the same under a seed, resumable, bounded, gone when told."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest
from data_scenes import nerfstudio, photo

from xpr.data import Feed, load
from xpr.errors import DataError, UserError

COUNT = 5


@pytest.fixture
def views(tmp_path):
    dataset = load(nerfstudio(tmp_path, COUNT))
    for i, view in enumerate(dataset.views):
        photo(view.image_path, color=(i, 0, 0))
    return dataset.views


@pytest.fixture
def feed_of():
    """Feeds that are closed at the end."""
    feeds = []

    def make(views, **settings):
        feeds.append(Feed(views, **{"seed": 0, **settings}))
        return feeds[-1]

    yield make
    for feed in feeds:
        feed.close()


def order(feed, count):
    return [next(feed).index for _ in range(count)]


def test_every_epoch_visits_every_view_in_a_new_order(views, feed_of):
    epochs = np.reshape(order(feed_of(views), 6 * COUNT), (6, COUNT))
    assert all(sorted(epoch) == list(range(COUNT)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1


def test_an_item_is_the_view_it_names(views, feed_of):
    for item, _ in zip(feed_of(views), range(COUNT), strict=False):
        assert item.image.dtype == np.uint8 and item.image[0, 0, 0] == item.index
        assert item.camera is views[item.index].camera and item.mask is None


def test_one_seed_gives_one_order(views, feed_of):
    assert order(feed_of(views, seed=3), 20) == order(feed_of(views, seed=3), 20)


def test_neighbouring_seeds_share_no_epochs(views, feed_of):
    first, second = order(feed_of(views, seed=0), 40), order(feed_of(views, seed=1), 40)
    assert first != second and first[COUNT:] != second[:-COUNT]


@pytest.mark.parametrize("taken", [0, 3, 7])
def test_a_restored_feed_continues_exactly(taken, views, feed_of):
    unbroken = order(feed_of(views), taken + 12)
    feed = feed_of(views)
    order(feed, taken)
    state = json.loads(json.dumps(feed.state()))
    fresh = feed_of(views)
    order(fresh, 2)
    fresh.restore(state)
    assert order(fresh, 12) == unbroken[taken:]


@pytest.mark.parametrize("other", [{"seed": 1}, {"views": 4}])
def test_the_state_of_another_feed_is_refused(other, views, feed_of):
    feed = feed_of(views)
    with pytest.raises(UserError, match="saved input order"):
        feed.restore({**feed.state(), **other})


@pytest.mark.parametrize("kept", [0, 2, COUNT])
def test_decoded_photos_are_kept_up_to_the_limit(kept, views, feed_of, monkeypatch):
    decoded = []
    original = type(views[0]).image
    monkeypatch.setattr(type(views[0]), "image", lambda v: decoded.append(v.name) or original(v))
    size = views[0].image().nbytes
    decoded.clear()
    feed = feed_of(views, cache_bytes=kept * size + size // 2)
    order(feed, 6 * COUNT)
    assert feed.cached_bytes == kept * size
    repeated = {name for name in decoded if decoded.count(name) > 2}
    assert len(repeated) == COUNT - kept


def test_waiting_for_slow_photos_is_counted(views, feed_of, monkeypatch):
    original = type(views[0]).image
    monkeypatch.setattr(type(views[0]), "image", lambda v: time.sleep(0.05) or original(v))
    feed = feed_of(views)
    assert feed.waited == 0
    next(feed)
    assert feed.waited >= 0.05


def test_photos_are_decoded_while_the_step_runs(views, feed_of, monkeypatch):
    original = type(views[0]).image
    monkeypatch.setattr(type(views[0]), "image", lambda v: time.sleep(0.02) or original(v))
    feed = feed_of(views)
    next(feed)
    before = feed.waited
    time.sleep(0.5)
    order(feed, COUNT - 1)
    assert feed.waited - before < 0.02


def test_a_photo_that_cannot_be_decoded_is_named(views, feed_of):
    views[2].image_path.write_bytes(b"gone")
    with pytest.raises(DataError, match=r"2\.png"):
        order(feed_of(views), COUNT)


def test_no_views_are_refused():
    with pytest.raises(UserError, match="at least one"):
        Feed([], seed=0)


def test_a_closed_feed_gives_nothing_more(views, feed_of):
    feed = feed_of(views)
    next(feed)
    feed.close()
    with pytest.raises(ValueError, match="closed"):
        next(feed)


@pytest.mark.parametrize("closing", ["feed.close()", "pass"])
def test_the_interpreter_exits_at_once_and_without_a_word(closing, tmp_path):
    file = nerfstudio(tmp_path, COUNT)
    code = f"""
import sys
from xpr.data import Feed, load
feed = Feed(load(sys.argv[1]).views, seed=0)
next(feed)
{closing}
"""
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", code, str(file)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
