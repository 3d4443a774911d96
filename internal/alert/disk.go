package alert

import (
	"context"
	"errors"

	"lksms/gen/dbq"
	"lksms/internal/postgres"
)

// MeasureDisks records the space of the file systems of this server's folders, and returns how many. Each server runs it for itself.
func (s *Service) MeasureDisks(ctx context.Context) (int, error) {
	n := 0
	for _, folder := range s.options.Folders {
		bytes, free, err := diskSpace(folder)
		if errors.Is(err, errors.ErrUnsupported) {
			return 0, nil
		}
		if err == nil {
			err = s.q.DiskSpacePut(ctx, dbq.DiskSpacePutParams{Host: s.options.Host, Folder: folder, Bytes: bytes, FreeBytes: free})
		}
		if err != nil {
			return n, postgres.Wrap("measure "+folder, err, nil)
		}
		n++
	}
	if n == 0 {
		return 0, nil
	}
	return n, postgres.Wrap("forget disks", s.q.DiskSpacesForget(ctx), nil)
}
