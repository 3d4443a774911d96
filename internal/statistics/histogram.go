package statistics

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
)

// growth is how much longer the times of a bucket are than those of the bucket before. A percentile is at most a tenth too long.
const growth = 1.1

// Bound returns the longest time in a bucket, in seconds. The buckets are those of the SQL function wait_bucket. The last one, 255, has longer
// times too.
func Bound(bucket byte) float64 { return math.Pow(growth, float64(bucket)) / 1000 }

// bin is one bucket of a Histogram, with how many times are in it.
type bin struct {
	bucket byte
	n      uint64
}

// Histogram counts times by buckets. It has no empty buckets, and they ascend.
type Histogram []bin

// Add adds times, each given by its bucket, in any order.
func (h *Histogram) Add(buckets []byte) {
	if len(buckets) == 0 {
		return
	}
	var counts [256]uint64
	for _, b := range buckets {
		counts[b]++
	}
	added := make(Histogram, 0, min(len(buckets), len(counts)))
	for b, n := range counts {
		if n > 0 {
			added = append(added, bin{byte(b), n})
		}
	}
	h.Merge(added)
}

// Merge adds all times of another histogram.
func (h *Histogram) Merge(other Histogram) {
	if len(*h) == 0 {
		*h = slices.Clone(other)
		return
	}
	i := 0
	for _, b := range other {
		for i < len(*h) && (*h)[i].bucket < b.bucket {
			i++
		}
		if i < len(*h) && (*h)[i].bucket == b.bucket {
			(*h)[i].n += b.n
		} else {
			*h = slices.Insert(*h, i, b)
		}
	}
}

// Count returns the number of times.
func (h Histogram) Count() (n uint64) {
	for _, b := range h {
		n += b.n
	}
	return n
}

// Percentile returns a time in seconds that this share of the times does not exceed, or nil if there is none: the bound of their bucket.
func (h Histogram) Percentile(share float64) *float64 {
	count := h.Count()
	if count == 0 {
		return nil
	}
	rank := max(1, uint64(math.Ceil(share*float64(count))))
	for _, b := range h {
		if b.n >= rank {
			return new(math.Round(1000*Bound(b.bucket)) / 1000)
		}
		rank -= b.n
	}
	return nil // never: rank is at most the count
}

// pack returns the histogram as it is stored: for each bucket its number, and a varint.
func (h Histogram) pack() []byte {
	text := make([]byte, 0, 3*len(h))
	for _, b := range h {
		text = append(text, b.bucket)
		text = binary.AppendUvarint(text, b.n)
	}
	return text
}

var errHistogram = errors.New("a stored histogram cannot be read")

// unpack reads a stored histogram.
func unpack(packed []byte) (Histogram, error) {
	h := make(Histogram, 0, len(packed)/2)
	for len(packed) > 0 {
		n, size := binary.Uvarint(packed[1:])
		if size <= 0 {
			return nil, errHistogram
		}
		h = append(h, bin{packed[0], n})
		packed = packed[1+size:]
	}
	return h, nil
}

// Buckets returns the bucket of each time, ascending.
func (h Histogram) Buckets() (all []byte) {
	for _, b := range h {
		for range b.n {
			all = append(all, b.bucket)
		}
	}
	return all
}
