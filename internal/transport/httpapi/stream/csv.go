package stream

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"strings"
	"time"

	"lksms/internal/platform/bom"
)

// pageLimit is the maximum time for which a client can block one call of CSVWriter.Add.
const pageLimit = 30 * time.Second

// CSVWriter writes the rows of a CSV file.
type CSVWriter struct {
	connection *http.ResponseController
	rows       *csv.Writer
}

// WriteCSV responds with a CSV file that spreadsheet programs display correctly: header, and the rows that fill adds. If fill fails, WriteCSV aborts the
// connection, so that the client does not regard the incomplete file as complete. It returns the error only for logging.
func WriteCSV(w http.ResponseWriter, name string, header []string, fill func(*CSVWriter) error) error {
	out := &CSVWriter{connection: http.NewResponseController(w), rows: csv.NewWriter(w)}
	out.rows.UseCRLF = true
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	w.WriteHeader(http.StatusOK)
	_, err := w.Write([]byte(bom.Mark)) // without the byte order mark, Excel assumes another encoding
	if err == nil {
		err = out.Add([][]string{header})
	}
	if err == nil {
		err = fill(out)
	}
	if err != nil {
		_ = out.connection.SetWriteDeadline(time.Unix(1, 0)) // prevents the regular end of the response; fails on test recorders, which is ignored
		return fmt.Errorf("write file: %w", err)
	}
	return nil
}

// Add writes rows and sends them before it returns, so that the server keeps no more than these rows in memory while a reader is slow.
func (w *CSVWriter) Add(rows [][]string) error {
	_ = w.connection.SetWriteDeadline(time.Now().Add(pageLimit)) // fails on test recorders, which is ignored
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
	_ = w.connection.Flush() // an error is ignored, because the next call detects that the client disconnected
	return nil
}

// formula contains the characters at the start of a cell that spreadsheet programs evaluate.
const formula = "=+-@\t\r"

// Harmless adds an apostrophe before a text that a spreadsheet program would evaluate as a formula. An import of contacts removes the apostrophe.
func Harmless(cell string) string {
	if cell != "" && strings.ContainsRune(formula, rune(cell[0])) {
		return "'" + cell
	}
	return cell
}
