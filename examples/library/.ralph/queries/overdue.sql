-- name: overdue :many
-- Books that should have come back by a day, the longest first, with who has them.
-- :day text    the day, as 2026-01-31
SELECT loans.id, books.title, members.name, loans.due
FROM loans
JOIN books ON books.isbn = loans.isbn
JOIN members ON members.id = loans.member
WHERE loans.returned IS NULL AND loans.due < :day
ORDER BY loans.due;
