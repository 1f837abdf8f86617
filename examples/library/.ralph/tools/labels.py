"""Labels for the backs of books."""

from ralphgen.tools import Project, ToolError, reads


@reads
def shelf_label(project: Project, isbn: str) -> str:
    """Return the label for the back of a book: shelf, author, number.

    isbn: the number from "list_books"
    """
    found = project.rows("SELECT shelf, author FROM books WHERE isbn = :isbn", isbn=isbn)
    if not found:
        raise ToolError(f'there is no book "{isbn}"')
    author = found[0]["author"].split()[-1]
    return f"{found[0]['shelf'][:3].upper()} {author[:4].upper()} {isbn[-1]}"
