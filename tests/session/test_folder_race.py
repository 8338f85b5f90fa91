"""Sessions that begin at the same time in a folder that is not there yet."""

from everturn.session.store.file_system import LocalFileSystem, make_folders


class Late(LocalFileSystem):
    """Sees no folder before it has made one: another process has made them in between."""

    def exists(self, path: str) -> bool:
        return not path.endswith(("/new", "/new/one"))


def test_a_folder_that_another_process_makes_in_between_is_used(tmp_path):
    folder = tmp_path / "new" / "one"
    folder.mkdir(parents=True)
    assert make_folders(Late(), str(folder)) == [str(tmp_path), str(tmp_path / "new")]
