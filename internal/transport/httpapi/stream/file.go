package stream

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"

	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/gate"
)

// File returns a response with a CSV file. The response counts as a stream and can take as long as the client reads. It ends when the caller loses its
// permission. Fault: request.too_much.
func (s *Streams) File(
	ctx context.Context, log *slog.Logger, name string, header []string, fill func(add func(rows [][]string) error) error,
) (func(http.ResponseWriter) error, error) {
	x := gate.Of(ctx)
	company := ""
	if own := caller.OwnCompany(ctx); own != nil {
		company = strconv.FormatInt(*own, 10)
	}
	leave, err := s.Open(x.Caller.User.Username, company)
	if err != nil {
		return nil, err
	}
	return func(w http.ResponseWriter) error {
		defer leave()
		x.Stream()
		err := WriteCSV(w, name, header, func(out *CSVWriter) error {
			return fill(func(rows [][]string) error {
				if err := x.Caller.Authorise(); err != nil {
					return err
				}
				return out.Add(rows)
			})
		})
		if err != nil {
			log.Info("file broken off", "request_id", x.Origin.RequestID, "error", err)
		}
		return nil
	}, nil
}
