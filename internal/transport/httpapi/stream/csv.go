package stream

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// pageLimit is how long a reader may take for the rows that one call of CSVWriter.Add brings.
const pageLimit = 30 * time.Second

// CSVWriter writes the rows of a CSV file.
type CSVWriter struct {
	connection *http.ResponseController
	rows       *csv.Writer
}

// WriteCSV answers with a CSV file, which spreadsheet programs open as it is meant: its header, and the rows that fill adds. Once the answer has begun, an error can only break it off, so that the reader
// does not take a part for the whole; WriteCSV returns the error for the log.
func WriteCSV(w http.ResponseWriter, name string, header []string, fill func(*CSVWriter) error) error {
	out := &CSVWriter{connection: http.NewResponseController(w), rows: csv.NewWriter(w)}
	out.rows.UseCRLF = true
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	w.WriteHeader(http.StatusOK)
	_, err := w.Write([]byte("\uFEFF")) // without it, Excel takes the text for another encoding
	if err == nil {
		err = out.Add([][]string{header})
	}
	if err == nil {
		err = fill(out)
	}
	if err != nil {
		_ = out.connection.SetWriteDeadline(time.Unix(1, 0)) // the end of the answer cannot be written; recorders of tests have no deadlines
		return fmt.Errorf("write file: %w", err)
	}
	return nil
}

// Add writes rows. They are sent before it returns, so that a slow reader holds no more than these.
func (w *CSVWriter) Add(rows [][]string) error {
	_ = w.connection.SetWriteDeadline(time.Now().Add(pageLimit)) // recorders of tests have none
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = Harmless(cell)
		}
		if err := w.rows.Write(cells); err != nil {
			return fmt.Errorf("write row: %w", err)
		}
	}
	w.rows.Flush()
	if err := w.rows.Error(); err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	_ = w.connection.Flush() // as above; a reader that has gone is noticed by the next rows
	return nil
}

// formula has the characters with which a cell begins that a spreadsheet program computes.
const formula = "=+-@\t\r"

// Harmless puts an apostrophe before a text that a spreadsheet program would take for a formula. An import of contacts removes it.
func Harmless(cell string) string {
	if cell != "" && strings.ContainsRune(formula, rune(cell[0])) {
		return "'" + cell
	}
	return cell
}
