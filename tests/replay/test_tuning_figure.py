"""The picture of `everturn tune --html`."""

from everturn.replay.page.tuning_figure import Point, join_near


def test_points_that_would_cover_each_other_become_one_with_all_numbers():
    points = [Point(10, 50, (1,)), Point(60, 50, (2,)), Point(12, 49, (3,)), Point(10, 60, (4,))]
    assert join_near(points) == [Point(10, 50, (1, 3)), Point(60, 50, (2,)), Point(10, 60, (4,))]
