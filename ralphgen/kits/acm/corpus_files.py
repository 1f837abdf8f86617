"""The documents that a project without any can start with, read when `init` writes them."""

from collections.abc import Iterator, Mapping

from ralphgen.kits.acm.server.workspace import DOCUMENTS, REGISTRY, lies_elsewhere
from ralphgen.rendering.texts import package_texts

PLACE = ".ralph/acm/"
ITS_REGISTRY = "registry/"


class CorpusFiles(Mapping[str, str]):
    """By path below the project's folder, the text of each document.

    What the machine has elsewhere, where it would be found first, is left out: nobody would ever
    read the copy.
    """

    def __getitem__(self, path: str) -> str:
        """The text of a document."""
        return self._files()[path]

    def __iter__(self) -> Iterator[str]:
        """The paths of the documents, sorted."""
        return iter(self._files())

    def __len__(self) -> int:
        """How many documents there are to write."""
        return len(self._files())

    def _files(self) -> dict[str, str]:
        documents, registry = lies_elsewhere(DOCUMENTS), lies_elsewhere(REGISTRY)
        return {
            PLACE + name: text
            for name, text in corpus().items()
            if not (registry if name.startswith(ITS_REGISTRY) else documents)
        }


def corpus() -> Mapping[str, str]:
    """Return every document by its path below their root, sorted."""
    return package_texts("ralphgen.kits.acm", "corpus")
