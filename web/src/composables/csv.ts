// Tables as files for spreadsheet programs.

/** Text that a spreadsheet program would read as a formula gets an apostrophe in front. */
const safe = (value: unknown): string => {
  if (value === null || value === undefined) return ''
  if (typeof value === 'number') return String(value)
  const text = String(value)
  return /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
}

const quote = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)

export const csv = (head: string[], rows: unknown[][]): string => [head, ...rows].map((row) => row.map((value) => quote(safe(value))).join(',')).join('\r\n') + '\r\n'

/** Hands the viewer a file. */
export function download(name: string, content: BlobPart, type: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([content], { type }))
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}

/** Hands the viewer a CSV file. The mark at its beginning makes Excel read it as UTF-8. */
export const downloadCsv = (name: string, head: string[], rows: unknown[][]): void => download(name, '\uFEFF' + csv(head, rows), 'text/csv;charset=utf-8')
