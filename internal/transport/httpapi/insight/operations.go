package insight

import (
	"context"
	"fmt"

	"lksms/gen/api"
	"lksms/internal/dispatch/queue"
	"lksms/internal/platform/servers"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
)

// RecoverTasks recovers all tasks with expired leases (S0.12).
func (h *Handlers) RecoverTasks(ctx context.Context, _ api.RecoverTasksRequestObject) (api.RecoverTasksResponseObject, error) {
	n, err := h.services.Queue.Recover(ctx)
	if err != nil {
		if n == 0 {
			return nil, err
		}
		h.services.Log.Error("some tasks could not be recovered", "request_id", gate.Of(ctx).Origin.RequestID, "error", err)
	}
	if n > 0 {
		if err := h.services.Audit.RecordRecovery(ctx, n); err != nil {
			return nil, err
		}
	}
	return api.RecoverTasks200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.Recovered{
		RecoveredCount: n, Message: fmt.Sprintf(gate.Of(ctx).Text.Recovered, n),
	}}, nil
}

// TaskStatistics counts the tasks by state (S0.13).
func (h *Handlers) TaskStatistics(ctx context.Context, _ api.TaskStatisticsRequestObject) (api.TaskStatisticsResponseObject, error) {
	counts, err := h.statistics(ctx, caller.OwnCompany(ctx))
	return api.TaskStatistics200JSONResponse(counts), err
}

// AppTaskStatistics returns the same figures as TaskStatistics in the format of the installed sender app (S0.18).
func (h *Handlers) AppTaskStatistics(ctx context.Context, _ api.AppTaskStatisticsRequestObject) (api.AppTaskStatisticsResponseObject, error) {
	counts, err := h.statistics(ctx, nil)
	return api.AppTaskStatistics200JSONResponse(counts), err
}

func (h *Handlers) statistics(ctx context.Context, company *int64) (api.StatisticsResponse, error) {
	row, err := h.services.History.Tasks(ctx, company)
	return api.StatisticsResponse{Code: convert.OK, Message: convert.Success, Data: api.Statistics{
		PendingNewTasks: row.PendingNewTasks, PendingRetryTasks: row.PendingRetryTasks,
		ProcessingTasks: row.ProcessingTasks, SuccessTasks: row.SuccessTasks, FailedTasks: row.FailedTasks,
	}}, err
}

// TaskStatusInfo describes the states of tasks (S0.13).
func (h *Handlers) TaskStatusInfo(ctx context.Context, _ api.TaskStatusInfoRequestObject) (api.TaskStatusInfoResponseObject, error) {
	text := gate.Of(ctx).Text
	infos := make([]api.StatusInfo, 0, len(text.States))
	for code := queue.Pending; code <= queue.Cancelled; code++ {
		infos = append(infos, api.StatusInfo{
			StatusCode: code, StatusName: text.States[code], Description: text.Description[code],
		})
	}
	return api.TaskStatusInfo200JSONResponse{Code: convert.OK, Message: convert.Success, Data: infos}, nil
}

// Health reports that the process is running, and the version of the program.
func (h *Handlers) Health(context.Context, api.HealthRequestObject) (api.HealthResponseObject, error) {
	return api.Health200JSONResponse(gate.Health()), nil
}

// Ready reports whether the server can serve requests.
func (h *Handlers) Ready(ctx context.Context, req api.ReadyRequestObject) (api.ReadyResponseObject, error) {
	if err := h.services.Ready(ctx); err != nil {
		h.services.Log.Warn("not ready", "request_id", gate.Of(ctx).Origin.RequestID, "error", err)
		return nil, gate.ErrUnavailable
	}
	roles := h.services.Servers.Roles()
	if role := req.Params.Role; role != nil && !roles.Has(servers.Role(*role)) {
		return nil, gate.ErrOtherRole
	}
	return api.Ready200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.Readiness{
		Roles: rolesAnswer(roles.Names()), MissingRoles: rolesAnswer(h.services.Servers.Missing().Names()),
	}}, nil
}

// ListServers lists the servers of this database.
func (h *Handlers) ListServers(ctx context.Context, _ api.ListServersRequestObject) (api.ListServersResponseObject, error) {
	rows, err := h.services.Servers.List(ctx)
	if err != nil {
		return nil, err
	}
	answer := api.ListServers200JSONResponse{Code: convert.OK, Message: convert.Success}
	answer.Data.Items = make([]api.ListedServer, len(rows))
	for i, row := range rows {
		answer.Data.Items[i] = api.ListedServer{
			ServerID: row.ServerID, Host: row.Host, Roles: rolesAnswer(row.Roles), Version: row.Version, StartedAt: row.StartedAt, SeenAt: row.SeenAt,
			IsAlive: row.IsAlive,
		}
	}
	return answer, nil
}

func rolesAnswer(names []string) api.ServerRoles {
	answer := make(api.ServerRoles, len(names))
	for i, name := range names {
		answer[i] = api.ServerRole(name)
	}
	return answer
}
