package statistics

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
)

// growth is the ratio between the bounds of neighbouring buckets. It limits the error of a percentile: at most 10 % too high.
const growth = 1.1

// Bound returns the upper bound of a bucket in seconds. The SQL function wait_bucket uses the same buckets. The last bucket, 255, also contains all longer
// times.
func Bound(bucket byte) float64 { return math.Pow(growth, float64(bucket)) / 1000 }

// bin is one bucket of a Histogram and the number of its times.
type bin struct {
	bucket byte
	n      uint64
}

// Histogram counts times by bucket. Its buckets are in ascending order, and none of them is empty.
type Histogram []bin

// Add adds times. Each byte is the bucket of one time, in any order.
func (h *Histogram) Add(buckets []byte) {
	if len(buckets) == 0 {
		return
	}
	var t tally
	for _, b := range buckets {
		t[b]++
	}
	h.Merge(t.histogram())
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

// Percentiles contains three times in seconds, which 50 %, 95 % and 99 % of all times do not exceed. Each value is rounded up to the bound of a bucket. All
// values are nil if the histogram is empty.
type Percentiles struct{ P50, P95, P99 *float64 }

// Percentiles returns the percentiles of all times in the histogram.
func (h Histogram) Percentiles() Percentiles {
	count := h.Count()
	return Percentiles{P50: h.percentile(0.5, count), P95: h.percentile(0.95, count), P99: h.percentile(0.99, count)}
}

// percentile returns the time that a share of all times does not exceed. count is the number of all times. If count is 0, percentile returns nil.
func (h Histogram) percentile(share float64, count uint64) *float64 {
	if count == 0 {
		return nil
	}
	rank := max(1, uint64(math.Ceil(share*float64(count))))
	for _, b := range h {
		if b.n >= rank {
			return &bounds[b.bucket]
		}
		rank -= b.n
	}
	return nil // unreachable: rank is at most count
}

// bounds contains the bound of each bucket, rounded to a millisecond. It must not be changed, because Percentiles contains pointers to its elements.
var bounds = func() (all [256]float64) {
	for b := range all {
		all[b] = math.Round(1000*Bound(byte(b))) / 1000
	}
	return all
}()

// tally counts times by bucket. It is faster to add many histograms to a tally than to merge them.
type tally [256]uint64

func (t *tally) add(h Histogram) {
	for _, b := range h {
		t[b.bucket] += b.n
	}
}

func (t *tally) histogram() (h Histogram) {
	for b, n := range t {
		if n > 0 {
			h = append(h, bin{byte(b), n})
		}
	}
	return h
}

// pack returns the stored form of the histogram: for each bucket, its number as one byte and its count as a varint.
func (h Histogram) pack() []byte {
	text := make([]byte, 0, 3*len(h))
	for _, b := range h {
		text = append(text, b.bucket)
		text = binary.AppendUvarint(text, b.n)
	}
	return text
}

var errHistogram = errors.New("a stored histogram cannot be read")

// addPacked adds the times of a histogram in its stored form.
func (h *Histogram) addPacked(packed []byte) error {
	if len(*h) > 0 {
		var other Histogram
		err := other.addPacked(packed)
		h.Merge(other)
		return err
	}
	for len(packed) > 0 {
		n, size := binary.Uvarint(packed[1:])
		if size <= 0 {
			return errHistogram
		}
		*h = append(*h, bin{packed[0], n})
		packed = packed[1+size:]
	}
	return nil
}

// Buckets returns the bucket of each time, in ascending order. A bucket with several times is repeated.
func (h Histogram) Buckets() (all []byte) {
	for _, b := range h {
		for range b.n {
			all = append(all, b.bucket)
		}
	}
	return all
}
