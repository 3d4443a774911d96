-- Locks nothing that statements wait for: it replaces one function.
-- migrate:up
CREATE OR REPLACE FUNCTION sql_inbox_number(number text) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $_$
SELECT regexp_replace(
    regexp_replace(
        regexp_replace(
            translate(number, E'０１２３４５６７８９٠١٢٣٤٥٦٧٨٩۰۱۲۳۴۵۶۷۸۹＋．（）－［］·•。‘’＇', E'012345678901234567890123456789+.()-[]...\'\'\''),
            E'[\\s\u0085\u00a0\u00ad\u061c\u1680\u180e\u2000-\u200f\u2010-\u2015\u2028-\u202f\u205f\u2060-\u206f\u2212\u3000\ufe63\ufeff()\\[\\]-]', '', 'g'
        ),
        '^(\+?[0-9]{7,})\.0{1,2}$', '\1'
    ),
    E'\\.|^\'+', '', 'g'
)
$_$;

-- migrate:down
CREATE OR REPLACE FUNCTION sql_inbox_number(number text) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $_$
SELECT regexp_replace(
    regexp_replace(
        regexp_replace(
            translate(number, E'０１２３４５６７８９＋．（）－［］·•。‘’＇', E'0123456789+.()-[]...\'\'\''),
            E'[\\s\u0085\u00a0\u00ad\u061c\u1680\u180e\u2000-\u200f\u2010-\u2015\u2028-\u202f\u205f\u2060-\u206f\u2212\u3000\ufe63\ufeff()\\[\\]-]', '', 'g'
        ),
        '^(\+?[0-9]{7,})\.0{1,2}$', '\1'
    ),
    E'\\.|^\'+', '', 'g'
)
$_$;
