package history

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lksms/gen/historyq"
	"lksms/internal/platform/postgres"
)

// Manifest describes the content of an export. An export writes its manifest last: a folder with a manifest is complete.
type Manifest struct {
	Format     int       `json:"format"`    // always 1
	FirstDay   string    `json:"first_day"` // first day of the partition, for example 2026-11-01
	BeforeDay  string    `json:"before_day"`
	ExportedAt time.Time `json:"exported_at"`
	Files      []File    `json:"files"`
}

// File is one table of an export: CSV as PostgreSQL writes it, with a header of column names, compressed with gzip.
type File struct {
	Name   string `json:"name"`
	Table  string `json:"table"`
	Rows   int64  `json:"rows"`
	SHA256 string `json:"sha256"` // SHA-256 of the compressed file
}

const (
	manifestName     = "manifest.json"
	manifestFormat   = 1
	unfinishedPrefix = "unfinished-"
	unfinishedKept   = 24 * time.Hour
	exportPortion    = 50_000 // maximum number of tasks that one statement exports: a longer statement would delay vacuum and therefore slow down the queue
)

// exported contains the tables of an export. Each query returns the rows of the tasks whose ids lie between the first parameter (included) and the second
// parameter (excluded), except the tasks in the third parameter.
var exported = []struct{ table, query string }{
	{"messages", "SELECT * FROM messages WHERE task_id >= %[1]s AND task_id < %[2]s AND task_id <> ALL (%[3]s) ORDER BY task_id"},
	{"report_logs", "SELECT * FROM report_logs WHERE task_id >= %[1]s AND task_id < %[2]s AND task_id <> ALL (%[3]s) ORDER BY task_id, id"},
	{"deliveries", "SELECT * FROM deliveries WHERE task_id >= %[1]s AND task_id < %[2]s AND task_id <> ALL (%[3]s) ORDER BY task_id, id"},
	{"renderings", `SELECT * FROM renderings WHERE id IN (
		SELECT rendering_id FROM messages WHERE task_id >= %[1]s AND task_id < %[2]s AND task_id <> ALL (%[3]s)) ORDER BY id`},
}

// errNoFolder is the error of an export without a configured folder.
var errNoFolder = errors.New("no folder for exports is configured: set HISTORY_DIR")

// Export writes the partition that begins on firstDay to files in a new folder, and returns this folder. It fails while new tasks can be added to the
// partition. It omits the tasks that a drop would keep. The files can lack receipts that are stored during the export: Drop detects missing rows and exports
// again.
func (s *Service) Export(ctx context.Context, firstDay time.Time) (folder string, err error) {
	p, err := s.over(ctx, firstDay)
	if err != nil {
		return "", err
	}
	late, err := s.lateTasks(ctx, p)
	if err != nil {
		return "", err
	}
	return s.export(ctx, p, late)
}

// export works like Export for a partition that was already read. It excludes the tasks in lateIDs.
func (s *Service) export(ctx context.Context, p historyq.TaskPartitionGetRow, lateIDs []string) (folder string, err error) {
	if s.options.Dir == "" {
		return "", errNoFolder
	}
	if err := os.MkdirAll(s.options.Dir, 0o700); err != nil {
		return "", fmt.Errorf("export: %w", err)
	}
	s.removeUnfinished()
	unfinished, err := os.MkdirTemp(s.options.Dir, unfinishedPrefix)
	if err != nil {
		return "", fmt.Errorf("export: %w", err)
	}
	defer os.RemoveAll(unfinished) //nolint:errcheck // after the rename, this folder does not exist, and nothing is removed
	m := Manifest{
		Format: manifestFormat, FirstDay: p.FirstDay.Format(time.DateOnly), BeforeDay: p.LastDay.Format(time.DateOnly), ExportedAt: time.Now().UTC(),
	}
	files, err := os.OpenRoot(unfinished)
	if err != nil {
		return "", fmt.Errorf("export: %w", err)
	}
	defer files.Close() //nolint:errcheck // the files in the folder are closed already
	if m.Files, err = s.writeTables(ctx, files, p, lateIDs); err != nil {
		return "", fmt.Errorf("export: %w", err)
	}
	// If the partition was dropped meanwhile, the files are incomplete.
	if now, err := s.over(ctx, p.FirstDay); err != nil || !now.CreatedAt.Equal(p.CreatedAt) {
		return "", fmt.Errorf("export: the partition was dropped meanwhile: %w", errors.Join(ofDay(p.FirstDay, errNoPartition), err))
	}
	if err := writeManifest(files, m); err != nil {
		return "", fmt.Errorf("export: %w", err)
	}
	name := m.FirstDay + "_" + m.ExportedAt.Format("20060102T150405.000Z")
	folder = filepath.Join(s.options.Dir, name)
	if err := rename(s.options.Dir, unfinished, folder); err != nil {
		return "", fmt.Errorf("export: %w", err)
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if err := s.q.ErasuresHold(ctx); err != nil {
			return err
		}
		return s.q.TaskPartitionExported(ctx, historyq.TaskPartitionExportedParams{
			FirstDay: p.FirstDay, CreatedAt: p.CreatedAt, BeganAt: p.ReadAt, Messages: m.rows("messages"), Reports: m.rows("report_logs"), Folder: name, Late: lateIDs,
		})
	})
	return folder, postgres.Wrap("record export", err, nil)
}

// removeUnfinished deletes the folders of exports that were killed more than unfinishedKept ago. A younger folder can belong to a running export.
func (s *Service) removeUnfinished() {
	left, _ := filepath.Glob(filepath.Join(s.options.Dir, unfinishedPrefix+"*")) // an error means that the path is not a valid pattern; the folders are then kept
	for _, folder := range left {
		if info, err := os.Stat(folder); err == nil && time.Since(info.ModTime()) > unfinishedKept {
			_ = os.RemoveAll(folder) // the next export tries again
		}
	}
}

// rows returns the number of rows of a table in an export.
func (m Manifest) rows(table string) int64 {
	for _, f := range m.Files {
		if f.Table == table {
			return f.Rows
		}
	}
	return 0
}

// writeTables writes the tables of a partition, except the tasks in lateIDs, to files of a folder.
func (s *Service) writeTables(ctx context.Context, folder *os.Root, p historyq.TaskPartitionGetRow, lateIDs []string) (files []File, err error) {
	writers := make([]*tableWriter, len(exported))
	for i, t := range exported {
		if writers[i], err = newTableWriter(folder, t.table); err != nil {
			return nil, err
		}
		defer writers[i].file.Close() //nolint:errcheck // the file is closed already, unless an error occurred
	}
	for from, first := p.FirstID, true; from != ""; first = false {
		next, err := s.inParts.TaskPartitionCut(ctx, historyq.TaskPartitionCutParams{FromID: from, BeforeID: p.BeforeID, BatchSize: exportPortion})
		if err != nil && !postgres.IsNoRows(err) {
			return nil, fmt.Errorf("read ids: %w", err)
		}
		before := next // before is empty if no further task exists
		if before == "" {
			before = p.BeforeID
		}
		without := lateBetween(lateIDs, from, before)
		for i, t := range exported {
			n, err := s.db.CopyOut(ctx, writers[i].zip, fmt.Sprintf(t.query, postgres.Literal(from), postgres.Literal(before), without), first)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.table, err)
			}
			writers[i].Rows += n
		}
		from = next
	}
	for _, w := range writers {
		if err := w.close(); err != nil {
			return nil, err
		}
		files = append(files, w.File)
	}
	return files, nil
}

// lateBetween returns those of lateIDs that lie between from (included) and before (excluded), as an SQL array. lateIDs must be sorted.
func lateBetween(lateIDs []string, from, before string) string {
	first, _ := slices.BinarySearch(lateIDs, from)
	end, _ := slices.BinarySearch(lateIDs, before)
	literals := make([]string, 0, end-first)
	for _, id := range lateIDs[first:end] {
		literals = append(literals, postgres.Literal(id))
	}
	return "ARRAY[" + strings.Join(literals, ", ") + "]::text[]"
}

// tableWriter writes one file of an export.
type tableWriter struct {
	File
	file *os.File
	hash hash.Hash
	zip  *gzip.Writer
}

func newTableWriter(folder *os.Root, table string) (*tableWriter, error) {
	name := table + ".csv.gz"
	file, err := folder.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	w := &tableWriter{File: File{Name: name, Table: table}, file: file, hash: sha256.New()}
	w.zip, err = gzip.NewWriterLevel(io.MultiWriter(file, w.hash), gzip.BestSpeed)
	return w, err
}

// close flushes the file to disk.
func (w *tableWriter) close() error {
	err := errors.Join(w.zip.Close(), w.file.Sync(), w.file.Close())
	w.SHA256 = hex.EncodeToString(w.hash.Sum(nil))
	return err
}

func writeManifest(folder *os.Root, m Manifest) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	file, err := folder.OpenFile(manifestName, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	return errors.Join(err, file.Sync(), file.Close(), syncFolder(folder))
}

// syncFolder flushes the entries of a folder to disk, so that new names survive a crash.
func syncFolder(folder *os.Root) error {
	f, err := folder.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// rename renames a folder. Both names must be inside the folder in. rename flushes the new name to disk.
func rename(in, from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	parent, err := os.OpenRoot(in)
	if err != nil {
		return err
	}
	return errors.Join(syncFolder(parent), parent.Close())
}

// Import restores an exported and dropped partition, either completely or not at all. It returns the number of restored tasks. Import checks the files before
// it changes anything. The database role must own the tables. The counts of tasks do not change, because a drop does not reduce them. The import is one
// transaction, which delays vacuum.
func (s *Service) Import(ctx context.Context, folder string) (tasks int64, err error) {
	files, err := os.OpenRoot(folder)
	if err != nil {
		return 0, fmt.Errorf("import: %w", err)
	}
	defer files.Close() //nolint:errcheck // the file was only read
	m, err := readManifest(files)
	if err != nil {
		return 0, fmt.Errorf("import: %w", err)
	}
	firstDay, err1 := time.Parse(time.DateOnly, m.FirstDay)
	beforeDay, err2 := time.Parse(time.DateOnly, m.BeforeDay)
	if err := errors.Join(err1, err2); err != nil {
		return 0, fmt.Errorf("import: %s: %w", manifestName, err)
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if err := s.q.TaskPartitionStage(ctx, historyq.TaskPartitionStageParams{FirstDay: firstDay, LastDay: beforeDay}); err != nil {
			return fmt.Errorf("make tables: %w", err)
		}
		for _, f := range m.Files {
			if err := s.readTable(ctx, files, f, firstDay); err != nil {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
		}
		if err := s.q.TaskPartitionIndex(ctx, historyq.TaskPartitionIndexParams{FirstDay: firstDay, LastDay: beforeDay}); err != nil {
			return fmt.Errorf("build indexes: %w", err)
		}
		tasks = m.rows("messages")
		_, err := postgres.Patiently(ctx, func() (struct{}, error) {
			return struct{}{}, s.db.Tx(ctx, func(ctx context.Context) error {
				return s.q.TaskPartitionAttach(ctx, historyq.TaskPartitionAttachParams{FirstDay: firstDay, LastDay: beforeDay, Messages: tasks})
			})
		})
		return postgres.Wrap("attach partition", err, nil)
	})
	return tasks, postgres.Wrap("import", err, nil)
}

// readManifest reads the manifest of a folder and checks the SHA-256 of its files.
func readManifest(folder *os.Root) (m Manifest, err error) {
	text, err := folder.ReadFile(manifestName)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s: %w", manifestName, err)
	}
	if m.Format != manifestFormat {
		return m, fmt.Errorf("%s: format is %d: this version reads %d", manifestName, m.Format, manifestFormat)
	}
	if len(m.Files) != len(exported) {
		return m, fmt.Errorf("%s: files has %d items, not %d", manifestName, len(m.Files), len(exported))
	}
	for i, f := range m.Files {
		if f.Table != exported[i].table {
			return m, fmt.Errorf("%s: files[%d] is not the file of %s", manifestName, i, exported[i].table)
		}
		sum, err := sumOf(folder, f.Name)
		if err != nil {
			return m, err
		}
		if sum != f.SHA256 {
			return m, fmt.Errorf("%s: the file was changed: its SHA-256 is %s, not %s", f.Name, sum, f.SHA256)
		}
	}
	return m, nil
}

func sumOf(folder *os.Root, name string) (string, error) {
	file, err := folder.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // the file was only read
	h := sha256.New()
	_, err = io.Copy(h, file)
	return hex.EncodeToString(h.Sum(nil)), err
}

// readTable adds the rows of a file to its table. Rows of deliveries and renderings that still exist are skipped.
func (s *Service) readTable(ctx context.Context, folder *os.Root, f File, firstDay time.Time) error {
	file, err := folder.Open(f.Name)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // the file was only read
	zip, err := gzip.NewReader(bufio.NewReaderSize(file, 1<<16))
	if err != nil {
		return err
	}
	rows := bufio.NewReaderSize(zip, 1<<16)
	header, err := rows.ReadString('\n')
	if err != nil {
		return fmt.Errorf("read names of columns: %w", err)
	}
	columns := strings.Split(strings.TrimSuffix(header, "\n"), ",")
	table, isPartitioned := f.Table, f.Table == "messages" || f.Table == "report_logs"
	if isPartitioned {
		table += firstDay.Format("_20060102")
	} else {
		table = "imported_" + table
		if _, err := s.db.Exec(ctx, fmt.Sprintf("CREATE TEMPORARY TABLE %s (LIKE %s INCLUDING DEFAULTS) ON COMMIT DROP", table, f.Table)); err != nil {
			return err
		}
	}
	n, err := s.db.CopyIn(ctx, rows, table, columns)
	if err != nil {
		return err
	}
	if n != f.Rows {
		return fmt.Errorf("the file has %d rows, not %d", n, f.Rows)
	}
	if !isPartitioned {
		names := postgres.Columns(columns)
		_, err = s.db.Exec(ctx, fmt.Sprintf("INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM %s ON CONFLICT DO NOTHING", f.Table, names, names, table))
	}
	return err
}
