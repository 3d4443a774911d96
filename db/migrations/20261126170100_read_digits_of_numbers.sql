-- migrate:up
-- Digits are full-width or Arabic in some numbers, and a spreadsheet adds .0. The migration locks no table.
CREATE FUNCTION number_digits(number text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN replace(
    regexp_replace(
        regexp_replace(
            translate(number, '０１２３４５６７８９٠١٢٣٤٥٦٧٨٩۰۱۲۳۴۵۶۷۸۹．·•。', '012345678901234567890123456789....'),
            '[^0-9.]', '', 'g'
        ),
        '^([0-9]{7,})\.0{1,2}$', '\1'
    ),
    '.', ''
);
COMMENT ON FUNCTION number_digits IS
    'The digits of a phone number in any notation that internal/phone reads, as ASCII. It finds candidates, of which internal/phone says which number they are.';

-- migrate:down
DROP FUNCTION number_digits;
