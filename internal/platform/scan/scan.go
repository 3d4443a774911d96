// Package scan fills the pages of lists with filters that have no index. A page reads ids in portions, and the matching rows of each portion. It stops after a
// bounded number of rows.
package scan

import "time"

const (
	maxRows    = 10_000 // approximate maximum number of rows that one page reads
	maxPortion = 1000   // maximum number of ids that one statement reads
)

// skew is the maximum time by which a row can be later than a row with a greater id.
const skew = time.Minute

// Span returns limits for the ids of the rows between two times: ids from first up to, but not including, end. end is at most before. A nil time is no limit.
// since returns approximately the first id of the rows that are not older than a time. Because of skew, callers also compare the times.
func Span(from, to *time.Time, before int64, since func(time.Time) (int64, error)) (first, end int64, err error) {
	if from != nil {
		if first, err = since(from.Add(-skew)); err != nil {
			return 0, 0, err
		}
	}
	if to != nil {
		last, err := since(to.Add(skew))
		if err != nil {
			return 0, 0, err
		}
		before = min(before, last)
	}
	return first, before, nil
}

// Page is a page of a list, newest first. The next page starts with ids smaller than Before. 0 means that no page follows.
type Page[Row any] struct {
	Rows   []Row
	Before int64
}

// List describes how a list is read.
type List[Row any] struct {
	IDs  func(before int64, limit int32) ([]int64, error) // returns up to limit ids before an id, newest first
	Rows func(ids []int64) ([]Row, error)                 // returns the matching rows among ids, newest first
	ID   func(Row) int64
}

// Page returns the rows with ids smaller than `before`, at most limit. It can return fewer rows although a page follows.
func (l List[Row]) Page(before int64, limit int) (p Page[Row], err error) {
	portion := limit + 1
	for read := 0; read < maxRows; {
		found, err := l.IDs(before, int32(portion))
		if err != nil || len(found) == 0 {
			return p, err
		}
		more, err := l.Rows(found)
		if err != nil {
			return p, err
		}
		if p.Rows = append(p.Rows, more...); len(p.Rows) > limit {
			p.Rows = p.Rows[:limit]
			p.Before = l.ID(p.Rows[limit-1])
			return p, nil
		}
		if len(found) < portion {
			return p, nil
		}
		before, read, portion = found[len(found)-1], read+len(found), maxPortion
	}
	p.Before = before
	return p, nil
}
