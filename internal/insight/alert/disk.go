package alert

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"lksms/gen/alertq"
	"lksms/internal/platform/postgres"
)

// MeasureDisks records the size and the free space of the file systems that contain this server's folders. It returns the number of measured file systems. Each
// server runs it.
func (s *Service) MeasureDisks(ctx context.Context) (int, error) {
	n := 0
	for _, folder := range s.options.Folders {
		bytes, free, err := diskSpace(existing(folder))
		if errors.Is(err, errors.ErrUnsupported) {
			return 0, nil
		}
		if err == nil {
			err = s.q.DiskSpacePut(ctx, alertq.DiskSpacePutParams{Host: s.options.Host, Folder: folder, Bytes: bytes, FreeBytes: free})
		}
		if err != nil {
			return n, postgres.Wrap("measure "+folder, err, nil)
		}
		n++
	}
	if n == 0 {
		return 0, nil
	}
	return n, postgres.Wrap("delete disks", s.q.DiskSpacesDelete(ctx), nil)
}

// existing returns the folder or, if it does not exist, its nearest existing parent. Both are assumed to be on the same file system.
func existing(folder string) string {
	for {
		_, err := os.Stat(folder)
		above := filepath.Dir(folder)
		if !errors.Is(err, fs.ErrNotExist) || above == folder {
			return folder
		}
		folder = above
	}
}
