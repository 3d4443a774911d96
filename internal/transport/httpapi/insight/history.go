package insight

import (
	"context"
	"time"

	"github.com/oapi-codegen/runtime/types"

	"lksms/gen/api"
	"lksms/internal/insight/history"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/paging"
)

// ListPartitions pages through the partitions of tasks, newest first. The cursor is the first day of the last partition on the page, as a number such as
// 20231201.
func (h *Handlers) ListPartitions(ctx context.Context, req api.ListPartitionsRequestObject) (api.ListPartitionsResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	day := int(max(0, min(before, 99991231)))
	rows, err := h.services.History.Partitions(ctx, time.Date(day/10000, time.Month(day/100%100), day%100, 0, 0, 0, 0, time.UTC), limit+1)
	if err != nil {
		return nil, err
	}
	items, next := paging.Page(rows, limit, partitionOf, func(p history.PartitionRow) string { return p.FirstDay.Format("20060102") })
	return api.ListPartitions200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.PartitionPage{Items: items, NextCursor: next}}, nil
}

func partitionOf(p history.PartitionRow) api.Partition {
	place := api.PlaceRecent
	switch {
	case p.DroppedAt != nil:
		place = api.PlaceDropped
	case p.HistoryAt != nil:
		place = api.PlaceHistory
	}
	view := api.Partition{
		FirstDay: types.Date{Time: p.FirstDay}, LastDay: types.Date{Time: p.LastDay.AddDate(0, 0, -1)}, Place: place, IsSettled: p.IsSettled,
		Bytes: p.Bytes, HistoryAt: p.HistoryAt, ExportedAt: p.ExportedAt, ImportedAt: p.ImportedAt, DroppedAt: p.DroppedAt, LateTasks: p.LateTasks,
	}
	if p.HeldBy != nil {
		view.HeldBy = new(api.PartitionHolder(*p.HeldBy))
	}
	return view
}
