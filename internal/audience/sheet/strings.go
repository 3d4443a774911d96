package sheet

import (
	"encoding/binary"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"

	lru "github.com/hashicorp/golang-lru/v2"

	"lksms/internal/platform/fault"
)

const (
	blockBytes    = 16 << 10 // minimum size of a block in bytes; a block with blockStrings strings can be smaller
	blockStrings  = 64
	blocksCached  = 32
	stringsMemory = 2 << 20 // maximum size in bytes of the strings in memory; later strings are in a temporary file
)

// sharedStrings contains the strings of a workbook. A cell refers to a string by its number. Excel numbers the strings in the order of their first use; other
// programs use any order. get reads the part only as far as needed, and stores the strings in blocks. The most recently used blocks are in memory. Other blocks
// can be in a temporary file, because a workbook can have as many strings as cells.
type sharedStrings struct {
	part    io.ReadCloser
	xml     *xmlReader
	maxText int // maximum number of bytes of a string
	isOver  bool

	count  int // number of strings read
	blocks []stringBlock
	cache  *lru.Cache[int, []string]
	last   []string // the strings that are not in a block yet
	memory []byte   // the first blocks, up to stringsMemory bytes
	file   *os.File // the other blocks; nil: all blocks are in memory
	end    int64    // size of the file
}

// stringBlock is the location of a block.
type stringBlock struct {
	first int   // number of its first string
	at    int64 // offset in memory or, beyond the size of memory, in the file
	bytes int
}

// openStrings starts to read the strings of a part.
func openStrings(part io.ReadCloser, maxCell int) *sharedStrings {
	cache, err := lru.New[int, []string](blocksCached)
	if err != nil {
		panic(err) // impossible: the size is positive
	}
	return &sharedStrings{part: part, xml: newXML(part), maxText: 4 * maxCell, cache: cache}
}

// close deletes the temporary file.
func (s *sharedStrings) close() error {
	err := s.part.Close()
	if s.file != nil {
		err = errors.Join(err, s.file.Close(), removed(s.file))
		s.file = nil
	}
	return err //nolint:wrapcheck // Reader.Close returns the reason
}

// get returns a string. It returns the errors of xmlReader.next, and the fault damaged if the string does not exist.
func (s *sharedStrings) get(no int) (string, error) {
	for no >= s.count && !s.isOver {
		if err := s.readString(); err != nil {
			return "", err
		}
	}
	if no < 0 || no >= s.count {
		return "", wrong(fault.Damaged, nil)
	}
	if first := s.count - len(s.last); no >= first {
		return s.last[no-first], nil
	}
	index := sort.Search(len(s.blocks), func(i int) bool { return s.blocks[i].first > no }) - 1
	block, is := s.cache.Get(index)
	if !is {
		var err error
		if block, err = s.load(s.blocks[index]); err != nil {
			return "", err
		}
		s.cache.Add(index, block)
	}
	return block[no-s.blocks[index].first], nil
}

// readString reads the next string.
func (s *sharedStrings) readString() error {
	for {
		token, err := s.xml.next()
		if errors.Is(err, io.EOF) {
			s.isOver = true
			return nil
		}
		if err != nil {
			return err
		}
		if start, is := token.(xml.StartElement); !is || start.Name.Local != "si" {
			continue
		}
		text, err := readText(s.xml, "si", s.maxText)
		if err != nil {
			return err
		}
		s.last = append(s.last, text)
		s.count++
		return s.flush()
	}
}

// flush stores the last strings as a block if there are enough of them.
func (s *sharedStrings) flush() error {
	bytes := 0
	for _, text := range s.last {
		bytes += len(text)
	}
	if len(s.last) < blockStrings && bytes < blockBytes {
		return nil
	}
	block := make([]byte, 0, bytes+len(s.last)*binary.MaxVarintLen32)
	for _, text := range s.last {
		block = append(binary.AppendUvarint(block, uint64(len(text))), text...)
	}
	at := int64(len(s.memory)) + s.end
	if s.file == nil && len(s.memory)+len(block) <= stringsMemory {
		s.memory = append(s.memory, block...)
	} else if err := s.spill(block); err != nil {
		return err
	}
	s.blocks = append(s.blocks, stringBlock{first: s.count - len(s.last), at: at, bytes: len(block)})
	s.last = nil
	return nil
}

// spill writes a block to the temporary file.
func (s *sharedStrings) spill(block []byte) (err error) {
	if s.file == nil {
		if s.file, err = os.CreateTemp("", "lksms-strings-*"); err != nil {
			return fmt.Errorf("make temporary file: %w", err)
		}
		_ = removed(s.file) // on Unix, an open file needs no name: the system deletes it even if the server is killed. If the name cannot be deleted now, close deletes it.
	}
	n, err := s.file.WriteAt(block, s.end)
	s.end += int64(n)
	if err != nil {
		return fmt.Errorf("write temporary file: %w", err)
	}
	return nil
}

// removed deletes the name of a file, unless it is already deleted.
func removed(file *os.File) error {
	err := os.Remove(file.Name())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err //nolint:wrapcheck // the error names the file
}

// load returns the strings of a block.
func (s *sharedStrings) load(b stringBlock) ([]string, error) {
	bytes := make([]byte, b.bytes)
	if b.at < int64(len(s.memory)) {
		copy(bytes, s.memory[b.at:])
	} else if _, err := s.file.ReadAt(bytes, b.at-int64(len(s.memory))); err != nil {
		return nil, fmt.Errorf("read temporary file: %w", err)
	}
	texts := make([]string, 0, blockStrings)
	for len(bytes) > 0 {
		size, prefix := binary.Uvarint(bytes)
		texts = append(texts, string(bytes[prefix:prefix+int(size)]))
		bytes = bytes[prefix+int(size):]
	}
	return texts, nil
}
