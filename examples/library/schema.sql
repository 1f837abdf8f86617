CREATE TABLE members (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    owes_cents INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE books (
    isbn TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    author TEXT NOT NULL,
    shelf TEXT NOT NULL CHECK (shelf IN ('novels', 'science', 'children'))
);
CREATE TABLE loans (
    id INTEGER PRIMARY KEY,
    isbn TEXT NOT NULL REFERENCES books (isbn),
    member INTEGER NOT NULL REFERENCES members (id),
    due TEXT NOT NULL,
    returned TEXT
);
CREATE VIEW books_out AS
    SELECT books.isbn, books.title, loans.due
    FROM books JOIN loans ON loans.isbn = books.isbn WHERE loans.returned IS NULL;

INSERT INTO members (id, name, owes_cents) VALUES (1, 'Ada', 0), (2, 'Grace', 250);
INSERT INTO books VALUES
    ('978-1', 'The Engine', 'L. Menabrea', 'science'),
    ('978-2', 'A Long Night', 'E. Moran', 'novels'),
    ('978-3', 'The Small Owl', 'T. Vale', 'children');
INSERT INTO loans (id, isbn, member, due, returned) VALUES
    (1, '978-1', 2, '2026-01-15', NULL),
    (2, '978-2', 1, '2026-02-20', '2026-02-18');
