import { TrendCharts } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'

export const pages: PageDefinition[] = [
  {
    name: 'statistics',
    path: 'statistics',
    component: () => import('./StatisticsPage.vue'),
    title: 'statistics.title',
    operations: ['readStatistics'],
    nav: { section: 'watch', order: 30, icon: TrendCharts },
  },
]
