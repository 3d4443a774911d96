import type { Texts } from '..'
import type zh from '../zh/lists'

const texts: Texts<typeof zh> = {
  file: {
    choose: 'Choose a file',
    drop: 'or drop it here: CSV or XLSX, up to 100 MiB',
    other: 'choose another',
  },
  asking: 'Reading the list…',
  columns: 'no columns | {n} column | {n} columns',
  encoding: 'encoding {name}',
  encodingLabel: 'Encoding of the text',
  encodingFound: 'Find the encoding',
  workbook: 'workbook',
  firstRows: 'First rows of the list',
  row: 'Row',
  lossy: 'digits are lost',
  lossyHint: 'A spreadsheet shortened some numbers (such as 1.38E+10), or a formula failed: the values are lost. Format the column as text and save the list again.',
  extraHint: 'Some rows have more values than columns: a text with a comma is probably not in quotes.',
  noRows: 'The list has no rows.',
  moreColumns: 'all columns shown | {n} more column | {n} more columns',
}
export default texts
