#!/bin/bash
# sqlite.sh - sqlite3 builds a database of about 10 MB (in the nightly script 100), indexes, queries, checks and vacuums it; the
# database files of the two runs are equal byte for byte.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
need sqlite3 sqlite3

sqlite_story() {
    local rows=400000
    [ "$SCALE" = full ] || rows=40000
    [ "$SCALE" != small ] || rows=500
    sqlite3 -batch data.db <<END
PRAGMA journal_mode=OFF;
PRAGMA synchronous=OFF;
PRAGMA cache_size=-$((rows / 6));
PRAGMA threads=2;
CREATE TABLE item(id INTEGER PRIMARY KEY, number INTEGER, name TEXT, body TEXT);
CREATE TABLE tag(item INTEGER, word TEXT);
BEGIN;
WITH RECURSIVE r(i, x) AS (SELECT 1, 12345 UNION ALL
    SELECT i + 1, (x * 1103515245 + 12345) % 2147483648 FROM r WHERE i < $rows)
INSERT INTO item SELECT i, x, printf('name %08x of %d', x, i), hex(zeroblob(x % 61)) || x || hex(zeroblob(30 + i % 20)) FROM r;
INSERT INTO tag SELECT id, 'word' || (number % 1009) FROM item;
INSERT INTO tag SELECT id, substr(name, 6, 3) FROM item WHERE id % 2;
COMMIT;
CREATE INDEX by_number ON item(number);
CREATE INDEX by_name ON item(name, number);
CREATE INDEX by_word ON tag(word, item);
ANALYZE;
SELECT count(*), sum(number), sum(length(body)) FROM item;
SELECT word, count(*), sum(number) FROM tag JOIN item ON item.id = tag.item GROUP BY word ORDER BY 2 DESC, 1 LIMIT 20;
SELECT id, row_number() OVER (ORDER BY body, id) AS n FROM item ORDER BY n LIMIT 10 OFFSET $((rows / 2));
SELECT group_concat(name, ',') FROM (SELECT name FROM item WHERE number BETWEEN 1000000 AND 9000000 ORDER BY name);
SELECT count(*) FROM item a JOIN item b ON a.number % 100003 = b.id AND a.body < b.body;
SELECT json_group_array(json_object('id', id, 'name', name)) FROM item WHERE id % 997 = 0;
UPDATE item SET body = upper(body) || name WHERE id % 7 = 0;
DELETE FROM item WHERE id % 11 = 0;
PRAGMA integrity_check;
VACUUM;
PRAGMA integrity_check;
SELECT count(*), total(length(body)) FROM item;
PRAGMA page_count;
END
    sqlite3 data.db 'SELECT nosuch FROM item' || echo "sqlite3 says $?"
    cksum data.db # its size is part of the line
    sqlite3 data.db .dump | cksum
}

both sqlite sqlite_story
proved sqlite sqlite_story sqlite3
